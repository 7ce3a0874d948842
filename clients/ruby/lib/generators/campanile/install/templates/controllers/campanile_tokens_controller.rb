# POST /campanile_token: who the session belongs to, and a fresh user token. For <campanile-badge token-src="…"> in a page, and for the
# bridge component `notification-token`.
class CampanileTokensController < ApplicationController
  # It changes nothing, no other origin can read the answer, and a page that was open for hours has an old CSRF token.
  skip_forgery_protection
  # It answers 401 by itself: nobody is sent from here to a sign-in, or led back here after one. The first is Devise's.
  skip_before_action :authenticate_user!, raise: false
  # An open page asks by itself: for Devise's `timeoutable` that is nothing the user did, and a time-out, which Devise throws, is a 401 too.
  prepend_around_action do |_, action|
    request.env["devise.skip_trackable"] = true
    catch(:warden) { action.call }
    head :unauthorized unless performed?
  end

  def create
    response.headers["Cache-Control"] = "no-store"
    return head :unauthorized unless helpers.campanile_user_id

    render json: { token: helpers.campanile_user_token, user_id: helpers.campanile_user_id }
  end

  private

  # Rails 8's generated authentication calls it.
  def request_authentication = head(:unauthorized)
end
