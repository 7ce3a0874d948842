class SessionsController < ApplicationController
  skip_forgery_protection

  def create
    session[:user_id] = params[:user_id]
    session[:layout] = params[:layout].presence
    head :no_content
  end

  def destroy
    reset_session
    redirect_to "/signed_out", status: :see_other
  end
end
