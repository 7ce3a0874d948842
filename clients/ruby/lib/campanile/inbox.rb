module Campanile
  # A user's calls, with a user token: their inbox, their number, their devices.
  class Inbox
    # By these the server tells an app's look, which clears the number, from a browser's, and from a page that is only prepared.
    LOOK = %w[User-Agent Sec-Purpose X-Sec-Purpose].freeze

    # `attempts` and `timeout` are HTTP#call's.
    def initialize(token, http:, device_token: nil, attempts: nil, timeout: nil)
      @token, @http, @limits = token, http, { attempts: attempts, timeout: timeout }
      @headers = { "X-Device-Token" => device_token }.compact
    end

    # Without the token: an error's message may show the object.
    def inspect = "#<#{self.class}>"

    # A Page, newest first. `look_of` is the request of the page that shows it (its `headers` are asked): a native app's look at the first
    # page clears the number. `status` is "all", "unread" or "read".
    def list(look_of: nil, limit: nil, cursor: nil, status: nil, category: nil)
      look = LOOK.to_h { |name| [name, look_of&.headers&.[](name)] }.compact
      query = URI.encode_www_form({ limit: limit, cursor: cursor, status: status, category: category }.compact)
      answer = call("GET", "/notifications?#{query}", headers: look).json
      Page.new(answer["notifications"].map { |members| Notification.new(members) }, answer["next_cursor"], Badge.of(answer["badge"]))
    end

    # The Notification. This and the next three raise NotFound for one that isn't there.
    def find(id) = Notification.new(call("GET", about(id)).json)

    def mark_read(id) = mark(id, true)

    def mark_unread(id) = mark(id, false)

    def delete(id)
      call("DELETE", about(id))
      nil
    rescue NotFound => error
      raise if error.attempts == 1 # a later one finds what the first did
    end

    # `up_to` is the newest id that the user saw: what came later stays unread. Answers the Badge. Without it the call isn't repeated when its
    # answer is lost, because it would read what came meanwhile.
    def mark_all_read(up_to: nil)
      call("POST", "/notifications/mark_all_read", { up_to: up_to }.compact, repeatable: !up_to.nil?).json.then { |answer| Badge.of(answer["badge"]) }
    end

    # Which of at most 100 ids are read or gone: a Reconciliation.
    def reconcile(ids)
      answer = call("POST", "/notifications/reconcile", { ids: ids }).json
      Reconciliation.new(answer["handled"], Badge.of(answer["badge"]))
    end

    # With `by: :tenant` its `tenants` has the number that was given for each.
    def badge(by: nil) = Badge.of(call("GET", "/badge#{by && "?by=#{Identity.escape(by.to_s)}"}").json)

    # Sets the number to 0 and reads nothing. A number that the app gives stays, and is what this answers.
    def clear_badge
      Badge.of(call("DELETE", "/badge").json)
    rescue BadgeIsGiven
      badge
    end

    # A Hash for each device.
    def device_tokens = call("GET", "/device_tokens").json["device_tokens"]

    # `platform` is "ios" or "android"; further fields are those of POST /device_tokens.
    def register_device(token:, platform:, **fields) = call("POST", "/device_tokens", { token: token, platform: platform, **fields }).json

    # At sign-out. A device that isn't registered, or not this user's, is done.
    def delete_device(token)
      call("DELETE", "/device_tokens/#{Identity.escape(token)}")
      nil
    rescue NotFound
      nil
    end

    # {"token", "expires_at"}: opens streams for a minute, and nothing else.
    def stream_token = call("POST", "/stream_tokens").json

    private

    def mark(id, is_read) = Notification.new(call("PATCH", about(id), { read: is_read }).json)

    def about(id) = "/notifications/#{Identity.segment(id)}"

    def call(method, path, fields = nil, headers: {}, repeatable: true)
      @http.call(
        method, path, credential: @token, body: fields && JSON.generate(fields), headers: { **@headers, **headers },
        repeatable: repeatable, **@limits)
    end
  end
end
