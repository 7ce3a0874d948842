class ApplicationController < ActionController::Base
  User = Struct.new(:id)

  helper RailsGems
  layout -> { session[:layout] || "application" }

  # As Rails 8's generated authentication has the user, or as Devise has them.
  if ENV["SHOP_USER_IN"] == "Current"
    before_action { Current.user = user_of_session }
  else
    helper_method :current_user

    def current_user = user_of_session
  end

  private

  def user_of_session = session[:user_id] && User.new(session[:user_id])
end
