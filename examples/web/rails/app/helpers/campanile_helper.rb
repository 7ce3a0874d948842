require "jwt"

module CampanileHelper
  TOKEN_SECONDS = 900
  # Seconds for each step of the one call that every page waits for.
  PATIENCE = 0.25

  def campanile_url(path) = CampanileInbox::URL + path

  # The text that producers write as user_id; nil while nobody is signed in.
  def campanile_user_id = campanile_user&.id&.to_s

  # Short, because it stands in the page: each page brings a fresh one, and POST /campanile_token does.
  def campanile_user_token
    @campanile_user_token ||= begin
      now = Time.now.to_i
      claims = { sub: campanile_user_id, iat: now, exp: now + TOKEN_SECONDS }
      JWT.encode(claims, ENV.fetch("CAMPANILE_JWT_SECRET"), "HS256")
    end
  end

  # The number to print into the page, so that no controller reads an empty element as 0. Nil, and nothing printed, when
  # Campanile doesn't answer in time: a page never fails for its badge. A controller that knows it already, or knows that
  # Campanile is away, has set the variable.
  def campanile_badge_count
    return @campanile_badge_count if defined?(@campanile_badge_count)

    @campanile_badge_count = fetch_campanile_badge_count
  end

  # Signed as turbo-rails' turbo_stream_from does it. The key is Campanile's `cable.signed_stream_key` too.
  def campanile_signed_stream_name
    verifier = ActiveSupport::MessageVerifier.new(ENV.fetch("SIGNED_STREAM_KEY"), digest: "SHA256", serializer: JSON)
    verifier.generate("notifications:#{campanile_user_id}")
  end

  # The address that a deep link has among the app's own pages; nil for what would lead elsewhere: a scheme, another host, and
  # what browsers leave out of an address before they read it. To be adapted where pages have other paths than screens.
  def campanile_deep_link_path(link)
    path = "/#{link.to_s.delete_prefix("/")}"
    path if link.present? && path.match?(%r{\A/(?!/)[^:/?#\\[:space:][:cntrl:]]*(?:[/?#][^\\[:space:][:cntrl:]]*)?\z})
  end

  # The frame with the entries behind a cursor.
  def campanile_page_id(cursor) = "notifications_#{cursor || "first"}"

  private

  # current_user, as Devise has it; where there is none, Current.user, as Rails 8's generated authentication has it. To be adapted
  # to any other.
  def campanile_user
    controller.respond_to?(:current_user, true) ? controller.send(:current_user) : Current.user
  end

  def fetch_campanile_badge_count
    CampanileInbox.new(campanile_user_token, patience: PATIENCE).badge["count"]
  rescue StandardError => error
    Rails.logger.warn("Campanile gave no number for a page: #{error.message}")
    nil
  end
end
