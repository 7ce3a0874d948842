require "json"
require "jwt"
require "net/http"

module CampanileHelper
  CAMPANILE_URL = ENV.fetch("CAMPANILE_URL", "http://localhost:3001")
  TOKEN_SECONDS = 900
  # Seconds for each step of the one call that a page waits for.
  PATIENCE = 0.25

  def campanile_url(path) = CAMPANILE_URL + path

  # Short, because it stands in the page: each page brings a fresh one, and POST /campanile_token does. `sub` is the text that producers write as user_id.
  def campanile_user_token
    @campanile_user_token ||= begin
      now = Time.now.to_i
      claims = { sub: current_user.id.to_s, iat: now, exp: now + TOKEN_SECONDS }
      JWT.encode(claims, ENV.fetch("CAMPANILE_JWT_SECRET"), "HS256")
    end
  end

  # The number to print into the page, so that no controller reads an empty element as 0. Nil, and nothing printed, when
  # Campanile doesn't answer in time: a page never fails for its badge.
  def campanile_badge_count
    return @campanile_badge_count if defined?(@campanile_badge_count)

    @campanile_badge_count = fetch_campanile_badge_count
  end

  private

  def fetch_campanile_badge_count
    uri = URI(campanile_url("/badge"))
    options = { use_ssl: uri.scheme == "https", open_timeout: PATIENCE, ssl_timeout: PATIENCE, read_timeout: PATIENCE, max_retries: 0 }
    answer = Net::HTTP.start(uri.host, uri.port, options) do |http|
      http.get(uri.path, "Authorization" => "Bearer #{campanile_user_token}")
    end
    answer.is_a?(Net::HTTPOK) ? JSON.parse(answer.body)["count"] : nil
  rescue StandardError => error
    Rails.logger.warn("Campanile gave no number for a page: #{error.message}")
    nil
  end
end
