# The calls of generated_calls.py, as a Ruby program makes them with openapi-generator's client; generated_clients.py runs it.
# Standard input is JSON with the server's address, the database's path, a producer's key, an operate key, a broadcast key and users' tokens.
# Prints a line a group of calls; exit status 1 if one failed.
require "json"
require "openapi_client"

GIVEN = JSON.parse($stdin.read)
IOS_TOKEN, PUSHED_TOKEN, LOOKED_AT_TOKEN, ANDROID_TOKEN = "0f" * 32, "a1" * 32, "b2" * 29 + "91de8f", "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"
UNKNOWN = "0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a47"
NATIVE = "Hotwire Native iOS; Turbo Native iOS; Mozilla/5.0"
DATA = { "order" => 42, "express" => true, "carrier" => "Post", "weight" => 1.5 }
EXPIRES = Time.utc(2040, 1, 15, 12)
PUSH_SECONDS = 30  # until a push is out; a debug binary on a busy machine is slow

C = OpenapiClient
Failure = Class.new(StandardError)

def same(expected, found, what = "")
  raise Failure, "#{what} is #{found.inspect}, not #{expected.inspect}" unless expected == found
end

def time?(value) = value.is_a?(Time) && value.utc_offset.zero?

# One API of the client, such as C::InboxApi, with a credential.
def with(api, token, access_token: nil, user_agent: nil)
  configuration = C::Configuration.new do |one|
    one.host = GIVEN["address"]
    one.access_token = token
    one.api_key["access_token"] = access_token if access_token
  end
  client = C::ApiClient.new(configuration)
  client.user_agent = user_agent if user_agent  # what a call says about it is overwritten by the client's own
  api.new(client)
end

def producer(api = C::ProducersApi) = with(api, GIVEN["key"])
def reader(api, user, **more) = with(api, GIVEN["tokens"].fetch(user), **more)

def create(user, idempotency: nil, **members)
  body = C::NotificationForUser.new({ user_id: user, title: "Hello", **members })
  producer.create_notification(body, idempotency ? { idempotency_key: idempotency } : {})
end

# The client raises what it didn't like; the program reads the problem.
def refusal(status, code)
  begin
    yield
  rescue C::ApiError => error
    refused = error
  end
  raise Failure, "nothing was raised, where #{status} #{code} was due" unless refused
  problem = C::Problem.build_from_hash(JSON.parse(refused.response_body))
  same [status, status, code], [refused.code, problem.status, problem.code], "the problem"
  same refused.response_headers["X-Request-Id"], problem.request_id, "the request id"
  [problem, refused]
end

# The notification's only delivery, when the provider has accepted it.
def accepted(made)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PUSH_SECONDS
  until (delivery = producer.list_deliveries(made.id).deliveries.first).state == "accepted"
    raise Failure, delivery.inspect if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
    sleep 0.05
  end
  delivery
end

CALLS = {}
def calls(name, &block) = CALLS[name] = block

# --- what a producer does

calls "creating with everything that can be said" do
  order = { title: "Your order is on its way", body: "Parcel 2 of 2.", category: "ORDER_UPDATE",
            deep_link: "/orders/42?tab=parcels", data: DATA, push: true, sound: nil, collapse_key: "order-42",
            thread_id: "orders", expires_at: EXPIRES.iso8601 }
  body = C::NotificationForUser.new({ user_id: "alice", **order })
  made, status, headers = producer.create_notification_with_http_info(body, idempotency_key: "order-42-shipped")
  same [201, C::CreatedNotification], [status, made.class], "the answer"
  same "/notifications/#{made.id}", headers["Location"], "Location"
  said = order.slice(:title, :body, :category, :deep_link)
  same said.values, [made.title, made.body, made.category, made.deep_link], "what was made"
  same [true, nil, DATA], [time?(made.created_at), made.read_at, made.data], "what was made"
  again, _, headers = producer.create_notification_with_http_info(body, idempotency_key: "order-42-shipped")
  same [made, "true"], [again, headers["Idempotency-Replayed"]], "the replay"
  refusal(422, "idempotency_mismatch") { create("alice", idempotency: "order-42-shipped", **order, title: "Another text") }
end

calls "creating for several users" do
  made = producer.create_notification(C::NotificationForUsers.new(user_ids: %w[bob carol bob], title: "Maintenance tonight"))
  same C::CreatedNotifications, made.class, "the answer"
  same %w[bob carol], made.notifications.map(&:user_id), "its users"
  seen = reader(C::InboxApi, "bob").get_notification(made.notifications.first.id)
  same ["Maintenance tonight", "", nil], [seen.title, seen.body, seen.data], "what the user sees"
end

calls "following pushes" do
  nobody = producer.list_deliveries(create("nobody").id)
  same ["no_devices", []], [nobody.reason, nobody.deliveries], "the deliveries of who has no device"
  reader(C::DevicesApi, "dora").register_device_token(C::IOSRegistration.new(token: PUSHED_TOKEN, platform: "ios"))
  made = create("dora", sound: nil, data: DATA, expires_at: EXPIRES.iso8601)
  delivery = accepted(made)
  same [PUSHED_TOKEN, "ios", "apns", "production", 1, nil, true],
       [delivery.token, delivery.platform, delivery.provider, delivery.environment, delivery.attempts, delivery.next_attempt_at,
        time?(delivery.settled_at)], "the delivery"
  same [["accepted", 200, true]], delivery.answers.map { |one| [one.outcome, one.status, time?(one.at)] }, "the answers"
  push = producer(C::SandboxApi).list_sandbox_pushes(user_id: "dora").pushes.first
  same [made.id, PUSHED_TOKEN, true], [push.notification_id, push.token, time?(push.sent_at)], "the push"
  # The client gives the keys of free objects as symbols, deep inside.
  headers, payload = JSON.parse(JSON.generate([push.headers, push.payload]))
  same EXPIRES.to_i.to_s, headers["apns-expiration"], "when it expires"
  same [false, 42, true], [payload["aps"].key?("sound"), payload["order"], payload["express"]], "the payload"
end

calls "editing and withdrawing" do
  made, other, third = (0..2).map { |number| create("lena", body: "Counter 3", deep_link: "/orders/42", external_id: "order-#{number}") }
  same ["order-0", nil], [made.external_id, made.edited_at], "what was made"
  taken, = refusal(409, "external_id_taken") { create("lena", external_id: "order-0") }
  same made.id, taken.notification_id, "what has the name"

  edited = producer(C::InboxApi).update_notification(made.id, C::Edit.new(title: "It is late", deep_link: nil, data: DATA))
  same ["It is late", "Counter 3", nil, DATA, true],
       [edited.title, edited.body, edited.deep_link, edited.data, time?(edited.edited_at)], "what was edited"
  refusal(422, "invalid") { producer(C::InboxApi).update_notification(made.id, C::Edit.new(push: true)) }

  same [nil, 204], producer(C::InboxApi).delete_notification_with_http_info(other.id, user_id: "lena").first(2), "the withdrawal"
  [1, 0].each do |number|
    withdrawn = producer.withdraw_notifications("order-2")
    same [number, false], [withdrawn.withdrawn, withdrawn.more], "what was withdrawn"
  end
  shown = C::ShownNotifications.new(ids: [third.id, made.id, other.id, "no id"])
  seen = reader(C::InboxApi, "lena").reconcile_notifications(shown)
  same [[third.id, other.id, "no id"], 1], [seen.handled, seen.badge.unread_count], "what the app removes"
end

# --- what an app does

calls "reading the inbox page by page" do
  inbox = reader(C::InboxApi, "erin")
  made = (0...5).map { |number| create("erin", title: "Number #{number}", category: number.odd? ? "ODD" : "EVEN").id }
  seen, page = [], nil
  until page && page.next_cursor.nil?
    page = inbox.list_notifications(limit: 2, **(page ? { cursor: page.next_cursor } : {}))
    seen += page.notifications.map(&:id)
  end
  same [made.reverse, 5], [seen, page.badge.unread_count], "the inbox"
  same ["Number 3", "Number 1"], inbox.list_notifications(category: "ODD").notifications.map(&:title), "one category"
  read = inbox.update_notification(made[2], C::ReadChange.new(read: true))
  same [made[2], true], [read.id, time?(read.read_at)], "what is read"
  same read, inbox.get_notification(made[2]), "the notification"
  same [made[2]], inbox.list_notifications(status: "read").notifications.map(&:id), "what is read"
  marked = inbox.mark_all_read(mark_all_read: C::MarkAllRead.new(up_to: made[3]))
  same [3, 1, 0], [marked.updated, marked.badge.unread_count, marked.badge.count], "what was marked"
  same [made[4]], inbox.list_notifications(status: "unread").notifications.map(&:id), "what is unread"
  same 1, inbox.mark_all_read.updated, "what was marked then"
  same [nil, 204], inbox.delete_notification_with_http_info(made[0]).first(2), "the deletion"
  refusal(404, "not_found") { inbox.get_notification(made[0]) }
end

calls "reading and clearing the badge" do
  badges, inbox = reader(C::BadgeApi, "frank"), reader(C::InboxApi, "frank")
  never = badges.get_badge
  same [0, 0, 0, nil], [never.count, never.unread_count, never.version, never.updated_at], "the badge of nobody"
  create("frank")
  first, _, headers = badges.get_badge_with_http_info
  same [1, 1, true], [first.count, first.unread_count, time?(first.updated_at)], "the badge"
  begin
    badges.get_badge(if_none_match: headers["ETag"])
    raise Failure, "no 304"
  rescue C::ApiError => unchanged
    same 304, unchanged.code, "the badge's status"
  end
  cleared = badges.clear_badge
  same [0, 1, true], [cleared.count, cleared.unread_count, cleared.version > first.version], "the badge afterwards"
  create("frank")
  same false, inbox.list_notifications.badge.count.zero?, "whether a browser clears"
  same true, reader(C::InboxApi, "frank", user_agent: NATIVE).list_notifications.badge.count.zero?, "whether the app clears"
end

calls "registering devices" do
  devices = reader(C::DevicesApi, "grace")
  ios = C::IOSRegistration.new(token: IOS_TOKEN.upcase, platform: "ios", environment: "sandbox", app_version: "2.4.1",
                               locale: "de-CH")
  (device, *), (_, *) = answers = Array.new(2) { devices.register_device_token_with_http_info(ios) }
  same [201, 200], answers.map { |one| one[1] }, "the statuses"
  same [IOS_TOKEN, "apns", "sandbox", "2.4.1", "de-CH", true],
       [device.token, device.provider, device.environment, device.app_version, device.locale,
        time?(device.last_registered_at)], "the device"
  android = devices.register_device_token(C::AndroidRegistration.new(token: ANDROID_TOKEN, platform: "android"))
  same ["fcm", "production", nil], [android.provider, android.environment, android.locale], "the Android device"
  firebase = C::IOSFirebaseRegistration.new(token: "#{ANDROID_TOKEN}-ios", platform: "ios", provider: "fcm")
  same "fcm", devices.register_device_token(firebase).provider, "the provider"
  listed = devices.list_device_tokens.device_tokens.map(&:token)
  same [IOS_TOKEN, ANDROID_TOKEN, "#{ANDROID_TOKEN}-ios"].sort, listed.sort, "the devices"
  same 204, devices.delete_device_token_with_http_info(ANDROID_TOKEN)[1], "the deletion"
  refusal(404, "not_found") { devices.delete_device_token(ANDROID_TOKEN) }
end

calls "making a stream token" do
  made = reader(C::BadgeApi, "heidi").create_stream_token
  same [true, true], [made.token.start_with?("cms_"), time?(made.expires_at)], "the token"
end

calls "asking what apps may know" do
  app = reader(C::AppsApi, "ivan", user_agent: NATIVE)
  seen = app.get_client
  same [true, "ios"], [seen.native, seen.platform], "the client"
  same [], app.list_deep_links.deep_links, "the deep links"
  refusal(404, "not_found") { app.get_path_configuration("ios_v1.json") }
end

calls "broadcasting" do
  sender = with(C::BroadcastsApi, GIVEN["broadcast_key"])
  before = sender.get_broadcast_position
  message = C::Broadcast.new(stream: "room:8", data: "<turbo-stream></turbo-stream>", id: "message-2")
  2.times { same 1, sender.broadcast(message).accepted, "how many were taken" }
  after = sender.get_broadcast_position
  same [before.epoch, before.offset + 1], [after.epoch, after.offset], "the series"
  refusal(422, "invalid") { sender.broadcast(C::Broadcast.new(stream: "notifications:lena", data: "x")) }
  refusal(403, "forbidden") { with(C::BroadcastsApi, GIVEN["key"]).broadcast(message) }
end

# --- what whoever runs the server does

calls "asking for health" do
  anyone = with(C::OperationsApi, nil)
  ready = anyone.get_readiness
  same ["ok", "ready", 0, nil], [anyone.get_health.status, ready.status, ready.reason_count, ready.reasons], "the health"
  told = with(C::OperationsApi, GIVEN["operate_key"]).get_readiness
  same ["ready", [], []], [told.status, told.reasons, told.details], "what an operate key is told"
end

calls "looking as an operator" do
  operator = with(C::OperatorsApi, GIVEN["operate_key"])
  reader(C::DevicesApi, "kate").register_device_token(C::IOSRegistration.new(token: LOOKED_AT_TOKEN, platform: "ios"))
  made = create("kate", category: "SEEN", deep_link: "/orders/42")
  accepted(made)

  overview = operator.get_overview
  apple = overview.providers[0]
  created = overview.last_hour.created
  same ["default", true, %w[apns fcm]], [overview.app, time?(overview.started_at), overview.providers.map(&:provider)], "the overview"
  same ["sandbox", nil, 0], [apple.condition, apple.reason, apple.owed.count], "Apple's condition"
  same [60, true], [created.size, created.sum.positive?], "the last hour"  # the client makes 0 of a null in a list of numbers

  found = operator.search_deliveries(notification_id: made.id)
  delivery, = found.deliveries
  same [nil, 1, made.id, "kate"], [found.next_cursor, found.deliveries.size, delivery.notification_id, delivery.user_id], "the delivery"
  same [LOOKED_AT_TOKEN[-6..], "accepted", nil, ["accepted"]],
       [delivery.token, delivery.state, delivery.reason, delivery.answers.map(&:outcome)], "what became of it"
  same true, operator.search_deliveries(state: "accepted").deliveries.map(&:user_id).include?("kate"), "whether a state finds it"
  same [], operator.search_deliveries(reason: "NobodySaysSo").deliveries, "what another reason finds"

  seen = operator.get_user("kate")
  device, = seen.device_tokens
  same ["kate", 1, LOOKED_AT_TOKEN[-6..], 1, false], [seen.user_id, seen.badge.count, device.token, device.told_count, device.in_flight],
       "the user"
  inbox = operator.list_notifications_of_user("kate")
  same [nil, [made.id]], [inbox.next_cursor, inbox.notifications.map(&:id)], "the inbox"
  refusal(404, "not_found") { operator.get_user("nobody-at-all") }
end

# --- problems

calls "problems are typed" do
  inbox = reader(C::InboxApi, "ivan")
  _, unauthorized = refusal(401, "unauthorized") { with(C::BadgeApi, "no token").get_badge }
  same true, unauthorized.response_headers["WWW-Authenticate"].start_with?("Bearer"), "the challenge"
  refusal(403, "forbidden") { producer(C::BadgeApi).get_badge }
  refusal(404, "not_found") { inbox.update_notification(UNKNOWN, C::ReadChange.new(read: true)) }
  refusal(404, "not_found") { producer.list_deliveries(UNKNOWN) }
  refusal(414, "uri_too_long") { inbox.list_notifications(category: "x" * 5000) }
  token = GIVEN["tokens"]["ivan"]
  refusal(400, "malformed_request") { with(C::StreamsApi, token, access_token: token).stream_badge }
  # A quotation mark is two bytes of JSON, so this is within the schema and over 256 KiB.
  many = C::NotificationForUsers.new(user_ids: ['"' * 255] * 520, title: "Hello")
  refusal(413, "body_too_large") { producer.create_notification(many) }
  many = C::NotificationForUsers.new(user_ids: (1..101).map { |number| "user-#{number}" }, title: "Hello")
  refusal(422, "idempotency_key_required") { producer.create_notification(many) }
  invalid, = refusal(422, "invalid") { create("ivan", data: { aps: "mine" }) }
  same [["data.aps", "reserved"]], invalid.errors.map { |one| [one.field, one.code] }, "the fields at fault"
end

# Two equal requests while another program holds the database's write lock, so that the first of them waits: what the one
# was answered that was done while the lock was held, and then the other.
def two_at_once(key)
  IO.popen(["sqlite3", GIVEN["database"]], "r+") do |holder|
    holder.puts ".timeout 5000", "BEGIN IMMEDIATE; SELECT 'held';"
    same "held\n", holder.gets, "the lock"
    answers = Queue.new
    both = Array.new(2) { Thread.new { answers << (create("judy", idempotency: key) rescue $!) } }
    first = answers.pop
    holder.puts "ROLLBACK;"
    both.each(&:join)
    [first, answers.pop]
  end
end

calls "a conflict is typed" do
  refused = other = nil
  5.times do |number|
    refused, other = two_at_once("judy-#{number}")
    # On a machine so slow that the first was given up before the second came, they didn't meet.
    break unless [refused, other].any? { |one| one.is_a?(C::ApiError) && one.code == 503 }
  end
  refusal(409, "idempotency_conflict") { raise refused if refused.is_a?(C::ApiError) }
  same C::CreatedNotification, other.class, "the other answer"
end

failed = CALLS.count do |name, block|
  block.call
  puts "passed  #{name}"
  false
rescue StandardError => error
  puts "FAILED  #{name}\n#{error.full_message(highlight: false)}"
  true
end
exit failed.zero?
