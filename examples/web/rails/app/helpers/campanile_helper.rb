require "jwt"

module CampanileHelper
  CAMPANILE_URL = ENV.fetch("CAMPANILE_URL", "http://localhost:3001")

  def campanile_url(path) = CAMPANILE_URL + path

  # Short, because it stands in the page: each page brings a fresh one, and an app fetches one when it needs it. `sub` is the text that producers write as user_id.
  def campanile_user_token
    @campanile_user_token ||= begin
      now = Time.now.to_i
      claims = { sub: current_user.id.to_s, iat: now, exp: now + 900 }
      JWT.encode(claims, ENV.fetch("CAMPANILE_JWT_SECRET"), "HS256")
    end
  end
end
