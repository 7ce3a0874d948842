require "test_helper"
require "yaml"

# Each call of a producer and of a user, against the server; and that none of openapi.yaml is left out.
class CallsTest < CampanileTest
  DOCUMENT = YAML.safe_load_file(File.join(World::REPOSITORY, "openapi.yaml"), aliases: true)
  # Read by a page or an app over a kept connection, which is no call.
  STREAMS = %w[streamBadge streamNotifications openCable].freeze
  # For another gem.
  OTHERS = %w[broadcastInAnyCablesForm].freeze
  MADE = []
  TOKEN = "0f" * 32

  # Notes which operation of openapi.yaml each call is.
  class Noting < Campanile::HTTP
    def call(method, path, **rest)
      MADE << CallsTest.operation(method, path)
      super
    end
  end

  def self.operation(method, path)
    template = DOCUMENT["paths"].keys.find { |one| path[/[^?]*/].match?(/\A#{one.gsub(/\{\w+\}/, "[^/]+")}\z/) && DOCUMENT["paths"][one][method.downcase] }
    DOCUMENT.dig("paths", template, method.downcase, "operationId")
  end

  # MADE is complete when all others have run.
  def self.runnable_methods = super.sort_by { |name| name == "test_no_call_of_the_document_is_left_out" ? 1 : 0 }

  i_suck_and_my_tests_are_order_dependent!

  def client(**settings)
    configuration = World.configuration(**settings)
    Campanile::Client.new(configuration, http: Noting.new(configuration, sleep: slept.method(:push)))
  end

  def test_notify_creates_for_an_id_and_for_a_record
    record = Struct.new(:id).new(user)
    made = [campanile.notify(user, title: "One", data: { order: 42 }), campanile.notify(record, title: "Two", deep_link: "/orders/42")]
    assert_equal [user, user], made.map(&:user_id)
    assert_equal [1, 2], made.map { |one| one.badge.count }
    page = campanile.inbox(record).list
    assert_equal made.reverse.map(&:id), page.notifications.map(&:id)
    assert_equal ["/orders/42", { "order" => 42 }], [page.notifications[0].deep_link, page.notifications[1].data]
    assert_equal 2, page.badge.count
    assert_nil page.next_cursor
    assert_in_delta Time.now.to_f, page.notifications[0].created_at.to_f, 60
  end

  def test_a_repeated_key_answers_the_first_notification
    first, second = Array.new(2) { campanile.notify(user, title: "Once", idempotency_key: "#{user}-once") }
    assert_equal first.id, second.id
    assert_equal [false, true], [first, second].map(&:replayed?)
    assert_equal 1, campanile.inbox(user).badge.count
  end

  def test_preview_creates_nothing
    campanile.inbox(user).register_device(token: TOKEN, platform: "ios")
    shown = campanile.preview(user, title: "Hello")
    assert_equal "Hello", shown["pushes"][0]["payload"]["aps"]["alert"]["title"]
    assert_empty campanile.inbox(user).list.notifications
  end

  def test_preview_is_refused_a_name_that_is_taken
    look = -> { campanile.preview(user, title: "Hello", external_id: "one") }
    assert_equal [], look.call["pushes"]
    made = campanile.notify(user, title: "Hello", external_id: "one")
    assert_equal made.id, assert_raises(Campanile::ExternalIdTaken, &look).notification_id
    campanile.withdraw(made)
    assert_equal made.id, assert_raises(Campanile::ExternalIdTaken, &look).notification_id
  end

  def test_notify_all_answers_each_user_once_and_takes_more_than_a_call_may_name
    made = campanile.notify_all(Array.new(1_001) { |number| "#{user}-#{number % 1_000}" } + ["#{user}-new"], title: "All", push: false, idempotency_key: user)
    assert_equal 1_001, made.map(&:user_id).uniq.size
    assert_equal 1_001, made.map(&:id).uniq.size
    again = campanile.notify_all(made.map(&:user_id).shuffle, title: "All", push: false, idempotency_key: user)
    assert_equal made.map(&:id), again.map(&:id), "the order of the users is no other call"
    assert_equal 1, campanile.inbox(made.last.user_id).badge.count
  end

  def test_notify_all_for_nobody_makes_no_call
    assert_equal [], campanile.notify_all([], title: "Nobody")
  end

  def test_edit_changes_takes_out_and_leaves
    made = campanile.notify(user, title: "Before", body: "Stays", deep_link: "/orders")
    edited = campanile.edit(made, user: user, title: "After", deep_link: nil)
    assert_equal ["After", "Stays", nil], [edited.title, edited.body, edited.deep_link]
    assert edited.edited_at
    assert_equal "Once more", campanile.edit(made.id, title: "Once more", push: true).title
  end

  def test_withdraw_takes_back_and_what_is_not_there_is_done
    made = campanile.notify(user, title: "Wrong")
    assert_equal [1, 0, 0], [campanile.withdraw(made), campanile.withdraw(made.id), campanile.withdraw("no-id", user: user)]
    assert_empty campanile.inbox(user).list.notifications
  end

  def test_withdraw_by_external_id_takes_back_all_of_them
    campanile.notify_all(Array.new(101) { |number| "#{user}-#{number}" }, title: "Many", external_id: "name/of a #{user}", push: false)
    assert_equal 101, campanile.withdraw(external_id: "name/of a #{user}")
    assert_equal 0, campanile.withdraw(external_id: "name/of a #{user}")
    assert_raises(ArgumentError) { campanile.withdraw }
    assert_raises(ArgumentError) { campanile.withdraw("id", external_id: "name") }
  end

  def test_deliveries_and_sandbox_pushes_tell_what_was_pushed
    campanile.inbox(user).register_device(token: SecureRandom.hex(32), platform: "ios")
    made = campanile.notify(user, title: "Pushed")
    assert_equal 1, campanile.deliveries(made)["deliveries"].size
    assert_kind_of Array, campanile.sandbox_pushes
    # The push goes out after the answer.
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    pushes = []
    while pushes.empty?
      pushes = campanile.sandbox_pushes(user)
      flunk "nothing was pushed" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
    assert_equal [made.id], pushes.map { |push| push["notification_id"] }
  end

  def test_the_inbox_finds_reads_and_deletes
    ids = %w[One Two Three].map { |title| campanile.notify(user, title: title).id }
    inbox = campanile.inbox(user)
    refute_predicate inbox.find(ids[0]), :read?
    assert_predicate inbox.mark_read(ids[0]), :read?
    refute_predicate inbox.mark_unread(ids[0]), :read?
    assert_equal 3, inbox.badge.count
    assert_equal 1, inbox.mark_all_read(up_to: ids[1]).unread_count
    assert_equal [ids[2]], inbox.list(status: "unread").notifications.map(&:id)
    assert_nil inbox.delete(ids[2])
    assert_raises(Campanile::NotFound) { inbox.delete(ids[2]) }
    assert_raises(Campanile::NotFound) { inbox.find("no/id") }
  end

  def test_pages_lead_to_each_other
    ids = Array.new(3) { |number| campanile.notify(user, title: number.to_s).id }.reverse
    inbox = campanile.inbox(user)
    first = inbox.list(limit: 2)
    assert_equal ids[0, 2], first.notifications.map(&:id)
    last = inbox.list(limit: 2, cursor: first.next_cursor)
    assert_equal [ids[2, 1], nil], [last.notifications.map(&:id), last.next_cursor]
  end

  def test_an_apps_look_clears_the_number_and_a_browsers_does_not
    campanile.notify(user, title: "Hello")
    looks = ["Mozilla/5.0", "Shop/1.0 Hotwire Native iOS;"].map { |agent| Struct.new(:headers).new({ "User-Agent" => agent }) }
    assert_equal([1, 0], looks.map { |look| campanile.inbox(user).list(look_of: look).badge.count })
  end

  def test_clear_badge_reads_nothing
    campanile.notify(user, title: "Hello")
    badge = campanile.inbox(user, device_token: TOKEN).clear_badge
    assert_equal [0, 1], [badge.count, badge.unread_count]
    assert badge.updated_at
  end

  def test_reconcile_says_what_is_handled
    ids = Array.new(2) { campanile.notify(user, title: "Hello").id }
    campanile.inbox(user).mark_read(ids[0])
    told = campanile.inbox(user).reconcile([*ids, "none"])
    assert_equal [[ids[0], "none"], 1], [told.handled, told.badge.count]
  end

  def test_devices_are_registered_listed_and_deleted
    inbox = campanile.inbox(user)
    token = "a:b/c #{SecureRandom.hex(4)}".delete(" ")
    assert_equal token, inbox.register_device(token: token, platform: "android", app_version: "2.0")["token"]
    assert_equal [token], inbox.device_tokens.map { |device| device["token"] }
    2.times { assert_nil inbox.delete_device(token) }
    assert_empty inbox.device_tokens
  end

  def test_a_given_number_holds_until_a_greater_sequence
    assert_equal 3, own.give_badge(user, count: 3, sequence: 5).count
    assert_equal 3, own.give_badge(user, count: 1, sequence: 4).count
    assert_equal 5, own.give_badge(user, count: 2, sequence: 1, tenant: "acme").count
    assert_equal({ "" => 3, "acme" => 2 }, own.inbox(user).badge(by: :tenant).tenants)
    assert_equal 6, own.notify(user, title: "Hello", badge: { count: 4, sequence: 6 }).badge.count
    assert_equal 6, own.inbox(user).clear_badge.count, "nobody clears it"
    assert_raises(Campanile::BadgeIsNotGiven) { campanile.give_badge(user, count: 1, sequence: 1) }
    assert_nil campanile.inbox(user).badge.tenants
  end

  def test_what_the_app_s_own_inbox_has_read_is_read
    names = Array.new(101) { |number| "#{user}-#{number}" }
    made = names.first(3).map { |name| campanile.notify(user, title: "Hello", external_id: name) }
    told = campanile.reads(user, external_ids: [*names.last(98), *names.first(2), "unknown"])
    assert_equal [2, 1], [told.read, told.badge.count], "101 take two calls"
    assert_equal [1, 0], campanile.reads(user, made).then { |again| [again.read, again.badge.count] }
    assert_equal 0, campanile.reads(user, []).read
    assert_equal 7, own.reads(user, [], badge: { count: 7, sequence: 1 }).badge.count
    assert_raises(ArgumentError) { campanile.reads(user) }
  end

  def test_broadcasts_are_taken_in_one_call_and_once_for_each_id
    before = campanile.broadcast_position[/\d+\z/].to_i
    sent = Array.new(3) { |number| { stream: "room", data: "<p>#{number}</p>", id: SecureRandom.uuid } }
    assert_equal [3, 3], Array.new(2) { campanile.broadcast(sent) }
    assert_equal before + 3, campanile.broadcast_position[/\d+\z/].to_i
    assert_equal 1, campanile.broadcast([{ "stream" => "room", "data" => "x" }])
    refused = assert_raises(Campanile::Invalid) { campanile.broadcast([*sent, { stream: "notifications:#{user}", data: "x" }]) }
    assert_equal "[3].stream", refused.errors[0]["field"]
    assert_raises(Campanile::Forbidden) { client(broadcast_key: World.key).broadcast(sent) }
    assert_raises(Campanile::Forbidden) { client(key: World.broadcast_key).notify(user, title: "Hello") }
  end

  def test_a_stream_token_is_made
    assert_match(/\Acms_/, campanile.inbox(user).stream_token["token"])
  end

  def test_a_user_without_an_id_is_refused_before_any_call
    assert_raises(ArgumentError) { campanile.notify(nil, title: "Hello") }
    assert_raises(ArgumentError) { campanile.notify(Struct.new(:id).new(nil), title: "Hello") }
  end

  def test_no_call_of_the_document_is_left_out
    wanted = DOCUMENT["paths"].values.flat_map(&:values).grep(Hash).select do |operation|
      (operation["security"] || []).flat_map(&:keys).intersect?(%w[producerKey userToken broadcastKey])
    end
    assert_equal (wanted.map { |operation| operation["operationId"] } - STREAMS - OTHERS).sort, MADE.uniq.sort
  end

  def test_a_time_stays_as_its_caller_has_it
    ends = Time.now.localtime("+05:00").freeze
    assert_equal ends.getutc.iso8601(3), JSON.parse(Campanile::Client.json(expires_at: ends))["expires_at"]
  end
end
