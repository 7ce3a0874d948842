require "minitest/autorun"
require "campanile/minitest"
require "open3"

class TestingTest < Minitest::Test
  include Campanile::Assertions

  def test_what_was_sent_is_found_by_user_and_fields
    made = Campanile.notify(7, title: "Your order is ready", deep_link: "/orders/7", idempotency_key: "order-7")
    sent = assert_notified(7, title: /ready/, deep_link: "/orders/7")
    assert_equal [made.id, "order-7"], [sent.id, sent.idempotency_key]
    refute_notified 8
    refute_notified 7, title: "Another"
  end

  def test_fields_match_as_they_were_sent
    Campanile.notify("alice", title: "Hello", data: { order: 42 }, category: :order)
    assert_notified "alice", data: { order: 42 }, category: :order
    assert_raises(Minitest::Assertion) { refute_notified "alice", data: { order: 42 } }
  end

  def test_a_block_sees_only_what_it_sent
    Campanile.notify("alice", title: "Before")
    assert_notified("alice", title: "Within") { Campanile.notify_all(%w[alice bob], title: "Within") }
    refute_notified("alice") { Campanile.notify("bob", title: "Bob's") }
  end

  def test_a_missing_one_fails_and_tells_what_was_sent
    Campanile.notify("alice", title: "Hello")
    failed = assert_raises(Minitest::Assertion) { assert_notified("alice", title: "Bye") }
    assert_includes failed.message, 'alice: title: "Hello"'
    assert_raises(Minitest::Assertion) { refute_notified("alice") }
  end

  def test_a_repeated_key_creates_nothing_twice
    first, second = Array.new(2) { Campanile.notify("alice", title: "Once", idempotency_key: "once") }
    assert_equal [first.id, true, 1], [second.id, second.replayed?, Campanile::Testing.sent.size]
  end

  def test_edits_withdrawals_and_reads_are_seen
    made = Campanile.notify("alice", title: "Hello", external_id: "one")
    assert_raises(Campanile::ExternalIdTaken) { Campanile.notify("alice", title: "Hello", external_id: "one") }
    Campanile.edit(made, title: "Hello again")
    assert_notified "alice", title: "Hello again"
    inbox = Campanile.inbox("alice")
    assert_equal [1, 1], [inbox.badge.count, inbox.list.notifications.size]
    assert_predicate inbox.mark_read(made.id), :read?
    assert_equal [0, [made.id, "x"]], [inbox.badge.count, inbox.reconcile([made.id, "x"]).handled]
    assert_equal [1, 0], [Campanile.withdraw(external_id: "one"), Campanile.withdraw(made)]
    refute_notified "alice"
  end

  def test_a_name_stays_taken_and_the_refusal_names_who_has_it
    made = Campanile.notify("alice", title: "Hello", external_id: "one")
    look = -> { Campanile.preview("alice", title: "Hello", external_id: "one") }
    assert_equal made.id, assert_raises(Campanile::ExternalIdTaken) { Campanile.notify_all(%w[bob alice], title: "Hello", external_id: "one") }.notification_id
    assert_equal made.id, assert_raises(Campanile::ExternalIdTaken, &look).notification_id
    Campanile.withdraw(made)
    [look, -> { Campanile.notify("alice", title: "Again", external_id: "one") }].each do |call|
      assert_equal made.id, assert_raises(Campanile::ExternalIdTaken, &call).notification_id
    end
    assert_equal [], Campanile.preview("bob", title: "Hello", external_id: "one")["pushes"]
    refute_notified "bob"
  end

  def test_a_preview_asks_for_what_a_creation_does
    assert_raises(Campanile::Invalid) { Campanile.preview("alice", body: "No title") }
  end

  def test_numbers_are_told_by_tenant
    Campanile.give_badge("alice", count: 3, sequence: 1)
    assert_equal 5, Campanile.give_badge("alice", count: 2, sequence: 1, tenant: "acme").count
    assert_equal [5, { "" => 3, "acme" => 2 }], Campanile.inbox("alice").badge(by: :tenant).then { |badge| [badge.count, badge.tenants] }
    assert_equal [{}, nil], [Campanile.inbox("bob").badge(by: :tenant).tenants, Campanile.inbox("alice").badge.tenants]
  end

  def test_given_numbers_and_reads_are_seen
    made = Campanile.notify("alice", title: "Hello", external_id: "one", badge: { count: 4, sequence: 2 })
    assert_equal [4, 4], [made.badge.count, Campanile.give_badge("alice", count: 9, sequence: 1).count]
    told = Campanile.reads("alice", external_ids: %w[one two], badge: { count: 3, sequence: 3 })
    assert_equal [1, 3, 0], [told.read, told.badge.count, told.badge.unread_count]
  end

  def test_a_title_is_asked_for
    assert_raises(Campanile::Invalid) { Campanile.notify("alice", body: "No title") }
  end

  def test_each_test_begins_with_nothing_sent
    assert_empty Campanile::Testing.sent
  end

  def test_rspec_has_the_same_as_matchers
    skip "RSpec isn't here" unless Gem::Specification.find_all_by_name("rspec-core").any? || system("rspec --version", out: File::NULL, err: File::NULL)
    said, status = Open3.capture2e("rspec", "-I", File.expand_path("../lib", __dir__), File.expand_path("rspec_example.rb", __dir__))
    assert_predicate status, :success?, said
    assert_includes said, "4 examples, 0 failures"
  end

  def test_broadcasts_go_nowhere
    Campanile.broadcaster.broadcast("room", "x")
    assert Campanile.broadcaster.flush(30)
    assert_equal "testing:0", Campanile.client.broadcast_position
    Campanile.broadcaster.broadcast("room", "y") # tells of no loss
  end
end
