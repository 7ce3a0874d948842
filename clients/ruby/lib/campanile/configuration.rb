module Campanile
  # Where the server is, and what this program shows it. What isn't set comes from the environment.
  class Configuration
    # Bytes that the server asks of a secret, as RFC 7518 section 3.2 does for HS256.
    SECRET_BYTES = 32

    # The server's address without a path. CAMPANILE_URL, else http://127.0.0.1:3001.
    attr_writer :url
    # The server's address for browsers, where it is another: CAMPANILE_PUBLIC_URL.
    attr_writer :public_url
    # A producer's key, `cmp_…`: CAMPANILE_KEY. In its place `key_file`, CAMPANILE_KEY_FILE, names a file that holds it.
    attr_writer :key, :key_file
    # A key made with `keys create NAME --broadcast`: CAMPANILE_BROADCAST_KEY, or the file of CAMPANILE_BROADCAST_KEY_FILE.
    attr_writer :broadcast_key, :broadcast_key_file
    # What signs user tokens, the server's `jwt.secret`: CAMPANILE_JWT_SECRET, or the file of CAMPANILE_JWT_SECRET_FILE.
    attr_writer :jwt_secret, :jwt_secret_file
    # The app's name on the server: CAMPANILE_APP, else "default".
    attr_writer :app
    # `iss` and `aud` of user tokens, where the server's configuration asks for them.
    attr_accessor :jwt_issuer, :jwt_audience
    # Takes a user token's claims and answers the token, for an app that signs with a key pair. Nil: HS256 with `jwt_secret`.
    attr_accessor :sign_user_token
    # Seconds that a user token is good for.
    attr_accessor :user_token_seconds
    # Seconds to connect, and to wait for each part of an answer.
    attr_accessor :open_timeout, :read_timeout
    # Seconds for each step of a page's call, which isn't repeated: of the inbox's page, and of the number that every page prints.
    attr_accessor :page_timeout, :layout_timeout
    # Seconds for the call for a page's place in the app's broadcasts; after them the page goes without.
    attr_accessor :position_timeout
    # Takes a controller and answers who is signed in there, nil while nobody is. Without it: `current_user`, as Devise has it, else
    # `Current.user`, as Rails 8's generated authentication has it.
    attr_accessor :signed_in
    # Which User-Agents are an app's besides Hotwire Native's: the server's `native_user_agents`, as Regexps or texts.
    attr_accessor :native_user_agents
    # What names of streams are signed with, the server's `cable.signed_stream_key`: CAMPANILE_CABLE_SIGNED_STREAM_KEY, else turbo-rails'.
    attr_writer :signed_stream_key
    # The name of a user's badge stream, the server's `cable.stream_name`: CAMPANILE_CABLE_STREAM_NAME, else "notifications:{user_id}". It may have
    # `{app}` too.
    attr_writer :stream_name
    # How often a call is made at most, when repeating it may help and does no harm. Between two of them it waits longer each time.
    attr_accessor :attempts

    def initialize(environment = ENV)
      @environment = environment
      @user_token_seconds = 900
      @open_timeout, @read_timeout, @attempts = 2, 10, 3
      @page_timeout, @layout_timeout, @position_timeout = 2, 0.25, 0.2
      @native_user_agents = []
    end

    def url = address("url", @url || present("CAMPANILE_URL") || "http://127.0.0.1:3001")

    def public_url = address("public_url", @public_url || present("CAMPANILE_PUBLIC_URL") || url)

    def key = @key || setting("CAMPANILE_KEY", @key_file) || raise(ConfigurationError, "key is missing: set CAMPANILE_KEY or CAMPANILE_KEY_FILE.")

    def broadcast_key = broadcast_key? || raise(ConfigurationError, "broadcast_key is missing: set CAMPANILE_BROADCAST_KEY or CAMPANILE_BROADCAST_KEY_FILE.")

    # The same; nil without one.
    def broadcast_key? = @broadcast_key || setting("CAMPANILE_BROADCAST_KEY", @broadcast_key_file)

    def jwt_secret
      secret = @jwt_secret || setting("CAMPANILE_JWT_SECRET", @jwt_secret_file)
      raise ConfigurationError, "jwt_secret is missing: set CAMPANILE_JWT_SECRET or CAMPANILE_JWT_SECRET_FILE." unless secret
      return secret if secret.bytesize >= SECRET_BYTES

      raise ConfigurationError, "jwt_secret must have #{SECRET_BYTES} bytes at least."
    end

    def signed_stream_key
      @signed_stream_key || present("CAMPANILE_CABLE_SIGNED_STREAM_KEY") || (::Turbo.signed_stream_verifier_key if defined?(::Turbo)) ||
        raise(ConfigurationError, "signed_stream_key is missing: set CAMPANILE_CABLE_SIGNED_STREAM_KEY.")
    end

    def stream_name = @stream_name || present("CAMPANILE_CABLE_STREAM_NAME") || "notifications:{user_id}"

    # The stream of one user.
    def stream_of(user_id) = stream_name.gsub(/\{(?:user_id|app)\}/, "{user_id}" => user_id.to_s, "{app}" => app)

    # The origins that a page connects to, for a content security policy: calls and streams, and the cable, which an origin with http
    # doesn't include.
    def origins = [public_url, public_url.sub(/\Ahttp/, "ws")]

    def app = @app || present("CAMPANILE_APP") || "default"

    # Secrets stay out of logs and consoles.
    def inspect = "#<#{self.class} url=#{url.inspect} app=#{app.inspect}>"

    private

    def address(name, given)
      given = given.delete_suffix("/")
      uri = URI.parse(given)
      return given if uri.is_a?(URI::HTTP) && uri.host && uri.path.empty? && !uri.query && !uri.userinfo

      raise ConfigurationError, "#{name} must be http://HOST:PORT or https://HOST:PORT, without a path."
    rescue URI::InvalidURIError
      raise ConfigurationError, "#{name} must be http://HOST:PORT or https://HOST:PORT, without a path."
    end

    def present(name) = @environment[name].then { |value| value unless value.to_s.empty? }

    # The variable, or the text of the file that the setting or the variable with _FILE names. A file that isn't there is no setting: in
    # development the server makes it at its first start.
    def setting(name, file)
      return present(name) if present(name)

      path = file || present("#{name}_FILE")
      path && File.exist?(path) ? File.read(path).strip.then { |text| text unless text.empty? } : nil
    end
  end
end
