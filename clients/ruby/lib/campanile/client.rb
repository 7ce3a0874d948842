module Campanile
  # A producer's calls, with an API key. Each method answers or raises; which problem is which class stands in errors.rb.
  class Client
    # The users that one call may name.
    USERS_IN_A_CALL = 1_000
    # The broadcasts that one call may send.
    BROADCASTS_IN_A_CALL = 100
    # The notifications that one call may say are read.
    READS_IN_A_CALL = 100

    attr_reader :configuration, :http

    # A body's text. Times are written as the server reads them (RFC 3339).
    def self.json(fields)
      JSON.generate(fields.transform_values { |value| value.respond_to?(:to_time) && value.respond_to?(:usec) ? value.to_time.getutc.iso8601(3) : value })
    end

    # The address of a notification among the calls, for a producer; `user` finds it also when its deliveries are no longer kept.
    def self.path_of(notification, user = nil)
      "/notifications/#{Identity.segment(notification)}#{user && "?user_id=#{Identity.escape(Identity.user(user))}"}"
    end

    # The address of a user among the calls.
    def self.path_of_user(user, what) = "/users/#{Identity.escape(Identity.user(user))}/#{what}"

    # What `reads` sends, a body for each call: one of the two lists of ids, in parts, and the number with the last.
    def self.reads(notifications, external_ids, badge)
      raise ArgumentError, "reads takes notifications or external_ids" unless notifications.nil? ^ external_ids.nil?

      name, ids = notifications ? [:ids, notifications.map { |one| Identity.notification(one) }] : [:external_ids, external_ids]
      *before, last = ids.empty? ? [ids] : ids.each_slice(READS_IN_A_CALL).to_a
      [*before.map { |part| { name => part } }, { name => last, badge: badge }.compact]
    end

    # The address of all that have an external id.
    def self.path_of_name(external_id) = "/notifications?external_id=#{Identity.escape(external_id)}"

    def initialize(configuration, http: HTTP.new(configuration))
      @configuration, @http = configuration, http
    end

    # Broadcasts to streams of the app's own, in order, once for each id, with the key of broadcasts: [{ stream:, data:, id: }], 100 at most. Pages
    # execute `data`. Answers how many were accepted. A call whose answer was lost is made again only if all have ids. More comfortable is
    # Campanile.broadcaster, which sends again what didn't arrive.
    def broadcast(broadcasts, attempts: nil)
      repeatable = broadcasts.all? { |one| one[:id] || one["id"] }
      @http.call(
        "POST", "/broadcasts", credential: @configuration.broadcast_key, body: JSON.generate(broadcasts), repeatable: repeatable,
        attempts: attempts).json["accepted"]
    end

    # Where the app's broadcasts are now, as "epoch:offset": a page that was rendered after it is told all that comes later. `timeout`, in seconds,
    # is for the whole call, where Net::HTTP's are for each step.
    def broadcast_position(timeout: nil)
      place = Timeout.timeout(timeout, Net::ReadTimeout) do
        @http.call("GET", "/broadcasts/position", credential: @configuration.broadcast_key, attempts: 1, timeout: timeout).json
      end
      "#{place["epoch"]}:#{place["offset"]}"
    rescue Net::ReadTimeout => error
      raise Unreachable, "GET /broadcasts/position: #{error.message}"
    end

    # Creates a notification for a user (a record with an id, or an id), and pushes it. The fields are those of POST /notifications.
    # Answers the Notification.
    #
    # `idempotency_key` names the event: a later call with the same key and fields creates nothing, and gets the first answer. Without one
    # only this call's own attempts are held together.
    def notify(user, idempotency_key: nil, **fields)
      create({ user_id: Identity.user(user), **fields }, idempotency_key)
    end

    # Creates one for each of the users. Answers a Notification for each, with `id`, `user_id` and `badge`.
    #
    # More than 1,000 users take several calls, each with the key and its number: if one raises, those before it have taken effect, and
    # the whole repeated with the same key goes on after them.
    def notify_all(users, idempotency_key: nil, **fields)
      ids = users.map { |user| Identity.user(user) }.uniq.sort
      key = idempotency_key || SecureRandom.uuid
      parts = ids.each_slice(USERS_IN_A_CALL).to_a
      parts.each_with_index.flat_map do |part, index|
        create({ user_ids: part, **fields }, parts.one? ? key : "#{key}-#{index}")
      end
    end

    # What `notify` would push, and to whom not and why, without creating anything: {"pushes", "withheld"}. Raises what `notify` would, so also
    # ExternalIdTaken.
    def preview(user, **fields)
      post("/notifications?dry_run=true", { user_id: Identity.user(user), **fields }).json
    end

    # Changes a notification: what is left out stays, nil takes it out. `push: true` replaces the alert on the phones, silently.
    # `user`, where it is known, finds it also when its deliveries are no longer kept. Answers the Notification.
    def edit(notification, user: nil, **fields)
      Notification.new(call("PATCH", self.class.path_of(notification, user), fields).json)
    end

    # Takes back a notification, or with `external_id` what has that name for all users. Answers how many there were, as far as the answers
    # came: one that isn't there, or isn't there any more, is withdrawn.
    def withdraw(notification = nil, user: nil, external_id: nil)
      raise ArgumentError, "withdraw takes a notification or an external_id" unless notification.nil? ^ external_id.nil?
      return withdraw_all(external_id) if external_id

      call("DELETE", self.class.path_of(notification, user))
      1
    rescue NotFound => error
      error.attempts > 1 ? 1 : 0 # a later attempt finds what the first did
    end

    # Gives a user's badge its number, where the app keeps the inbox itself (`badge.policy: given`). `sequence` grows with every change of the
    # number: a smaller or an equal one changes nothing. `tenant` is the account that the number belongs to, where one icon shows several.
    # Answers the Badge that holds.
    def give_badge(user, count:, sequence:, tenant: nil)
      Badge.of(call("PUT", self.class.path_of_user(user, "badge"), { count: count, sequence: sequence, tenant: tenant }.compact).json)
    end

    # Marks read what the user has read in the app's own inbox, by notifications or by external ids, and takes it off all their devices. Unknown
    # ones are passed over. `badge` is the number after it, as give_badge takes it. More than 100 take several calls, the number with the last.
    # Answers a Read: how many were unread, as far as the answers came, and the Badge. A call whose answer was lost is made again, and then
    # counts none of those that it has marked before.
    def reads(user, notifications = nil, external_ids: nil, badge: nil)
      answers = self.class.reads(notifications, external_ids, badge).map do |fields|
        deliver("POST", self.class.path_of_user(user, "reads"), Client.json(fields), repeatable: true).json
      end
      Read.new(answers.sum { |answer| answer["read"] }, Badge.of(answers.last["badge"]))
    end

    # How a notification's pushes fared, a Hash for each device.
    def deliveries(notification) = call("GET", "/notifications/#{Identity.segment(notification)}/deliveries").json

    # What a server without providers would have pushed, newest first; of all users, or of one.
    def sandbox_pushes(user = nil)
      query = user && "?user_id=#{Identity.escape(Identity.user(user))}"
      call("GET", "/sandbox/pushes#{query}").json["pushes"]
    end

    # A user's inbox, with a token of theirs. `device_token` names the device that the calls are made for: it gets no push for a number that an
    # answer told it. `attempts` and `timeout`, in seconds, replace the configuration's: a page doesn't wait as long as a job.
    def inbox(user, device_token: nil, attempts: nil, timeout: nil)
      Inbox.new(user_token(user), http: @http, device_token: device_token, attempts: attempts, timeout: timeout)
    end

    # A token that an app or a page shows for this user.
    def user_token(user, seconds: configuration.user_token_seconds) = UserToken.make(user, configuration, seconds: seconds)

    # Makes a call with the bytes as they are, of POST /notifications or any other. Answers what HTTP#call does.
    # `repeatable` is whether repeating it changes nothing: of a POST only with its key.
    def deliver(method, path, body, idempotency_key: nil, attempts: nil, repeatable: method != "POST" || !idempotency_key.nil?)
      headers = idempotency_key ? { "Idempotency-Key" => %("#{idempotency_key}") } : {}
      @http.call(
        method, path, credential: configuration.key, body: body, headers: headers, attempts: attempts,
        repeatable: repeatable)
    end

    private

    def create(fields, key)
      answer = post("/notifications", fields, key || SecureRandom.uuid)
      is_replayed = answer.headers["idempotency-replayed"] == "true"
      return Notification.new({ "user_id" => fields[:user_id], **answer.json }, is_replayed: is_replayed) unless answer.json["notifications"]

      answer.json["notifications"].map { |members| Notification.new(members, is_replayed: is_replayed) }
    end

    def withdraw_all(external_id)
      path = self.class.path_of_name(external_id)
      withdrawn = 0
      loop do
        answer = call("DELETE", path).json
        withdrawn += answer["withdrawn"]
        return withdrawn unless answer["more"]
      end
    end

    def post(path, fields, key = nil) = deliver("POST", path, Client.json(fields), idempotency_key: key)

    def call(method, path, fields = nil) = deliver(method, path, fields && Client.json(fields))
  end
end
