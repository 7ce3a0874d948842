module Campanile
  # The token that an app or a page shows for its user: a JWT (RFC 7519), signed with HS256 unless the configuration signs it otherwise.
  module UserToken
    HEADER = { alg: "HS256", typ: "JWT" }.freeze

    # `now` is the time of issue; `campanile revoke` refuses what was issued before.
    def self.make(user, configuration, seconds: configuration.user_token_seconds, now: Time.now)
      claims = {
        sub: Identity.user(user), iat: now.to_i, exp: now.to_i + seconds, app: configuration.app,
        iss: configuration.jwt_issuer, aud: configuration.jwt_audience
      }.compact
      return configuration.sign_user_token.call(claims) if configuration.sign_user_token

      signed = [HEADER, claims].map { |part| encode(JSON.generate(part)) }.join(".")
      "#{signed}.#{encode(OpenSSL::HMAC.digest("SHA256", configuration.jwt_secret, signed))}"
    end

    # Base64 for addresses, without padding (RFC 7515 section 2).
    def self.encode(bytes) = [bytes].pack("m0").tr("+/", "-_").delete("=")
    private_class_method :encode
  end
end
