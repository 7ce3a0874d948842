module Campanile
  # What views have: the elements of the number and the inbox, and what those stand on.
  module Tags
    # Who is signed in; nil while nobody is.
    def campanile_user
      return @campanile_user if defined?(@campanile_user)

      @campanile_user = campanile_signed_in
    end

    # The text that producers write as user_id; nil while nobody is signed in.
    def campanile_user_id = campanile_user&.id&.to_s

    # Short-lived, because it stands in the page: each page brings a fresh one, and POST /campanile_token does.
    def campanile_user_token = @campanile_user_token ||= Campanile.user_token(campanile_user)

    # The number to print into the page, so that no controller reads an empty element as 0. Nil, and nothing printed, when the server doesn't
    # answer in time: a page never fails for its badge. A controller that knows it already, or knows that the server is away, has set the
    # variable.
    def campanile_badge_count
      return @campanile_badge_count if defined?(@campanile_badge_count)

      @campanile_badge_count = Campanile.inbox(campanile_user, attempts: 1, timeout: Campanile.configuration.layout_timeout).badge.count
    rescue StandardError => error
      Rails.logger.warn("Campanile gave no number for a page: #{error.message}")
      @campanile_badge_count = nil
    end

    # <campanile-badge>: the number, live, hidden while it is 0; and told to an app around the page. Nothing while nobody is signed in, or a
    # setting is missing.
    def campanile_badge_tag(**attributes)
      campanile_element("campanile-badge", "/badge/stream", attributes) do |given|
        count = campanile_badge_count
        [count, { hidden: !count.to_i.positive?, data: { controller: "bridge--badge" }, **given }]
      end
    end

    # <campanile-inbox>: the list, live (docs/inbox-on-your-page.md), with its module, which comes from the server: a content security policy has
    # to let it through.
    def campanile_inbox_tag(**attributes)
      element = campanile_element("campanile-inbox", "/notifications/stream", attributes) { |given| [nil, given] }
      element && safe_join([javascript_include_tag("#{Campanile.configuration.public_url}/assets/campanile-inbox.js", type: "module", nonce: true), element])
    end

    # The name for <turbo-cable-stream-source>, signed as turbo-rails' turbo_stream_from does it.
    def campanile_signed_stream_name
      ActiveSupport::MessageVerifier.new(Campanile.configuration.signed_stream_key, digest: "SHA256", serializer: JSON)
                                    .generate(Campanile.configuration.stream_of(campanile_user_id))
    end

    # For the head: the page's cable is Campanile's, where config/cable.yml says so. Nothing where it says another adapter.
    def campanile_cable_meta_tag
      return unless defined?(::ActionCable) && ::ActionCable.server.config.cable.to_h["adapter"] == "campanile"

      tag.meta(name: "action-cable-url", content: "#{Campanile.configuration.origins.last}/cable")
    end

    # For the form that signs out: an app around the page deletes its device token first, so that no push comes any more.
    def campanile_sign_out_data
      { controller: "bridge--notification-token", bridge__notification_token_src_value: campanile_token_path,
        action: "submit->bridge--notification-token#signOut" }
    end

    def campanile_native_app? = NativeApp.request?(request)

    # The address that a deep link has among the app's own pages; nil for what would lead elsewhere: a scheme, another host, and what
    # browsers leave out of an address before they read it.
    def campanile_deep_link_path(link)
      path = "/#{link.to_s.delete_prefix("/")}"
      path if link.present? && path.match?(%r{\A/(?!/)[^:/?#\\]*(?:[/?#][^\\]*)?\z}) && !path.match?(/[[:space:]]|[[:cntrl:]]/)
    end

    private

    def campanile_element(name, path, attributes)
      return unless campanile_user

      own = { src: "#{Campanile.configuration.public_url}#{path}", token: campanile_user_token, "token-src": campanile_token_path }
      content, given = yield(attributes)
      content_tag(name, content, { **own, **given })
    rescue ConfigurationError => error
      Rails.logger.error("Campanile: #{error.message}")
      nil
    end

    def campanile_signed_in
      return Campanile.configuration.signed_in.call(controller) if Campanile.configuration.signed_in
      return controller.send(:current_user) if controller.respond_to?(:current_user, true)

      return unless defined?(::Current) && ::Current.respond_to?(:user)

      # Rails 8's looks for the session where a page asks for it, by a private method: an action of this name is the app's. Without a key for
      # cookies it is no request of a browser's, but a page that a job renders.
      controller.send(:resume_session) if controller.class.private_method_defined?(:resume_session) && controller.request&.key_generator
      ::Current.user
    end
  end
end
