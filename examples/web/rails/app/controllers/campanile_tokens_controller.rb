# GET /campanile_token: who the session belongs to, and a fresh user token, for the bridge component `notification-token`.
class CampanileTokensController < ApplicationController
  def show
    response.headers["Cache-Control"] = "no-store"
    return head :unauthorized unless current_user

    render json: { user_token: helpers.campanile_user_token, user_id: current_user.id.to_s }
  end
end
