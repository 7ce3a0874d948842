require "campanile"

module Campanile
  # For an app's tests: no server, and a look at what was sent. `require "campanile/minitest"` and `"campanile/rspec"` start it for each test.
  module Testing
    # One notification that was created: whose it is, its fields as they were given (in JSON's types), and the call's key.
    Sent = Struct.new(:id, :user_id, :fields, :idempotency_key, keyword_init: true) do
      # Whether it is the user's and each given field matches, by `===`.
      def to?(user, wanted) = user_id == Identity.user(user) && wanted.all? { |name, value| value === fields[name.to_s] || as_sent(value) == fields[name.to_s] }

      def as_sent(value) = JSON.parse(JSON.generate([value])).first

      def to_s = "#{user_id}: #{fields.map { |name, value| "#{name}: #{value.inspect}" }.join(", ")}"
    end

    class << self
      # The fake that stands in the server's place; nil outside a test.
      attr_reader :server

      def start
        @server = FakeServer.new
        configuration = Configuration.new({})
        configuration.key = configuration.broadcast_key = "cmp_testing"
        configuration.jwt_secret = "only for tests " * 3
        Campanile.client = Client.new(configuration, http: @server)
      end

      def stop
        @server = Campanile.client = nil
      end

      # What was created and not withdrawn, oldest first.
      def sent = server.sent
    end
  end

  # What answers in the server's place: it keeps what was created, edited, read and withdrawn, and asks for no more than a title. It pushes
  # nothing.
  class Testing::FakeServer
    attr_reader :sent

    def initialize
      @sent, @answers, @read, @given = [], {}, [], {}
      # Each user's names with the notification that has or had them: what is gone keeps its name.
      @names = {}
      @version = 0
    end

    # Takes what HTTP#call takes.
    def call(method, path, credential:, body: nil, headers: {}, **)
      fields = body ? JSON.parse(body) : {}
      path, _, query = path.partition("?")
      query = URI.decode_www_form(query).to_h
      @user = JSON.parse(credential.split(".")[1].tr("-_", "+/").unpack1("m"))["sub"] if credential.count(".") == 2
      status, json, head = answer("#{method} #{path[%r{\A/[a-z_]+(/[a-z_]+\z)?}]}", path.split("/")[2]&.then { |segment| URI.decode_www_form_component(segment.gsub("+", "%2B")) }, fields, query, headers["Idempotency-Key"])
      HTTP::Answer.new(status || 204, json, head || {})
    end

    def close = nil

    private

    def answer(call, id, fields, query, key)
      case call
      when "POST /notifications" then query["dry_run"] == "true" ? preview(fields) : create(fields, key)
      when "PATCH /notifications" then fields.key?("read") ? [200, read(find(id), fields["read"])] : edit(find(id), fields)
      when "DELETE /notifications" then id ? remove(find(id)) : [200, withdraw(query["external_id"])]
      when "GET /notifications" then [200, id ? shown(find(id)) : list]
      when "POST /notifications/mark_all_read" then [200, read_all(fields["up_to"])]
      when "POST /notifications/reconcile" then [200, { "handled" => fields["ids"].select { |one| handled?(one) }, "badge" => badge(@user) }]
      when "GET /badge" then [200, query["by"] == "tenant" ? { **badge(@user), "tenants" => tenants } : badge(@user)]
      when "DELETE /badge" then [200, badge(@user)]
      when "POST /broadcasts" then [202, { "accepted" => fields.size }]
      when "GET /broadcasts/position" then [200, { "epoch" => "testing", "offset" => 0 }]
      when "PUT /users" then [200, give(id, fields)]
      when "POST /users" then [200, reads(id, fields)]
      when "GET /device_tokens" then [200, { "device_tokens" => [] }]
      when "POST /device_tokens" then [201, fields]
      when "DELETE /device_tokens" then nil
      when "POST /stream_tokens" then [201, { "token" => "cms_testing", "expires_at" => Time.now.utc.iso8601(3) }]
      else refuse(404, "not_found")
      end
    end

    def preview(fields)
      check(fields, [fields["user_id"]])
      [200, { "pushes" => [], "withheld" => [] }]
    end

    def create(fields, key)
      return [201, @answers[key], { "idempotency-replayed" => "true" }] if @answers.key?(key)

      users = fields["user_ids"] || [fields["user_id"]]
      check(fields, users)
      made = users.map { |user| add(user, fields.except("user_id", "user_ids", "badge"), key) }
      give(users[0], fields["badge"]) if fields["badge"]
      members = made.map { |one| { "id" => one.id, "user_id" => one.user_id, "badge" => badge(one.user_id) } }
      @answers[key] = fields["user_ids"] ? { "notifications" => members } : { **shown(made[0]), "badge" => members[0]["badge"] }
      [201, @answers[key]]
    end

    def check(fields, users)
      refuse(422, "invalid", errors: [{ "field" => "title", "code" => "required", "message" => "title is required." }]) if fields["title"].to_s.empty?
      taken = users.filter_map { |user| @names[[user, fields["external_id"]]] }.first
      refuse(409, "external_id_taken", notification_id: taken) if taken
    end

    def add(user, fields, key)
      one = Testing::Sent.new(id: SecureRandom.uuid, user_id: user, fields: fields, idempotency_key: key&.delete('"'))
      @names[[user, fields["external_id"]]] = one.id if fields["external_id"]
      @sent << one
      one
    end

    def edit(one, fields)
      one.fields.merge!(fields.except("push"))
      [200, shown(one)]
    end

    def remove(one)
      @sent.delete(one)
      nil
    end

    def withdraw(name)
      gone = named(name).each { |one| @sent.delete(one) }
      { "withdrawn" => gone.size, "more" => false }
    end

    def read(one, is_read)
      is_read ? @read |= [one.id] : @read.delete(one.id)
      shown(one)
    end

    def read_all(up_to)
      newest = up_to ? mine.index { |one| one.id == up_to } : mine.size - 1
      unread = mine[0..newest].reject { |one| @read.include?(one.id) }
      @read |= unread.map(&:id)
      { "updated" => unread.size, "badge" => badge(@user) }
    end

    def list = { "notifications" => mine.reverse.map { |one| shown(one) }, "next_cursor" => nil, "badge" => badge(@user) }

    def shown(one)
      { "id" => one.id, "body" => "", "category" => nil, "deep_link" => nil, "created_at" => Time.now.utc.iso8601(3), **one.fields,
        "read_at" => (Time.now.utc.iso8601(3) if @read.include?(one.id)) }
    end

    def badge(user)
      unread = @sent.count { |one| one.user_id == user && !@read.include?(one.id) }
      count = @given[user]&.values&.sum { |given| given["count"] } || unread
      { "count" => count, "unread_count" => unread, "version" => @version += 1, "updated_at" => Time.now.utc.iso8601(3) }
    end

    # The user's numbers, by the tenants that they were given for.
    def tenants = (@given[@user] || {}).transform_values { |given| given["count"] }

    def give(user, given)
      tenants = @given[user] ||= {}
      known = tenants[given["tenant"].to_s]
      tenants[given["tenant"].to_s] = given unless known && known["sequence"] >= given["sequence"]
      badge(user)
    end

    def reads(user, fields)
      unread = @sent.select { |one| one.user_id == user && !@read.include?(one.id) }
      found = unread.select { |one| fields["ids"]&.include?(one.id) || fields["external_ids"]&.include?(one.fields["external_id"]) }
      @read |= found.map(&:id)
      give(user, fields["badge"]) if fields["badge"]
      { "read" => found.size, "badge" => badge(user) }
    end

    def find(id) = @sent.find { |one| one.id == id } || refuse(404, "not_found")

    def named(name) = @sent.select { |one| one.fields["external_id"] == name }

    def mine = @sent.select { |one| one.user_id == @user }

    def handled?(id) = @read.include?(id) || mine.none? { |one| one.id == id }

    def refuse(status, code, **members)
      raise Problem.of(status: status, content_type: "application/problem+json", body: JSON.generate({ code: code, detail: "Refused by the fake.", **members }))
    end
  end
end
