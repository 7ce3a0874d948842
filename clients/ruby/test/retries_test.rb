require "test_helper"
require "front"

class RetriesTest < CampanileTest
  def test_a_lost_answer_is_asked_for_again_with_the_same_key_and_creates_nothing_twice
    Front.open(:lose, :lose) do |front|
      made = client(url: front.url).notify(user, title: "Once")
      assert_predicate made, :replayed?
      keys = front.requests.map { |request| request[/^idempotency-key: (.*)\r/i, 1] }
      assert_equal [3, 1], [keys.size, keys.uniq.size]
    end
    assert_equal 1, campanile.inbox(user).badge.count
  end

  def test_waits_grow_and_end_after_the_last_attempt
    Front.open(*[[:refuse, 503]] * 9) do |front|
      refused = assert_raises(Campanile::Unavailable) { client(url: front.url, attempts: 4).notify(user, title: "Hello") }
      assert_equal [503, 4], [refused.status, front.requests.size]
    end
    assert_equal 3, slept.size
    slept.zip([0.5, 1, 2]) { |wait, least| assert_includes least..(least * 1.5), wait }
  end

  def test_retry_after_is_the_least_wait_and_a_long_one_is_left_to_the_caller
    Front.open([:refuse, 503], retry_after: 7) do |front|
      client(url: front.url).notify(user, title: "Hello")
    end
    assert_includes 7..10.5, slept[0]
    Front.open([:refuse, 503], retry_after: 60) do |front|
      refused = assert_raises(Campanile::Unavailable) { client(url: front.url).notify(user, title: "Hello") }
      assert_equal [60, 1], [refused.retry_after, front.requests.size]
    end
  end

  [[:refuse, 409], [:refuse, 429], [:refuse, 500], [:refuse, 502], [:drop], [:garble]].each do |order|
    define_method(:"test_after_#{order.join("_")}_the_call_is_made_again") do
      Front.open(order) { |front| assert client(url: front.url).notify(user, title: "Hello").id }
      assert_equal 1, campanile.inbox(user).badge.count
    end
  end

  def test_a_server_that_says_nothing_is_left_after_the_time_limit
    Front.open(:silent) do |front|
      assert client(url: front.url, read_timeout: 1).notify(user, title: "Hello").id
      assert_equal [2, 2], [front.requests.size, front.connections]
    end
  end

  def test_what_a_lost_answer_deleted_is_deleted
    ids = Array.new(2) { campanile.notify(user, title: "Hello").id }
    Front.open(:lose) { |front| assert_nil client(url: front.url).inbox(user).delete(ids[0]) }
    Front.open(:lose) { |front| assert_equal 1, client(url: front.url).withdraw(ids[1]) }
    assert_equal 0, campanile.inbox(user).badge.count
  end

  def test_reads_whose_answer_was_lost_count_what_the_last_attempt_found
    made = campanile.notify(user, title: "Hello")
    told = Front.open(:lose) { |front| client(url: front.url).reads(user, [made]) }
    assert_equal [0, 0, true], [told.read, told.badge.unread_count, campanile.inbox(user).find(made.id).read?]
  end

  def test_nobody_listens
    url = "http://127.0.0.1:#{World.free_port}"
    unreachable = assert_raises(Campanile::Unreachable) { client(url: url).notify(user, title: "Hello") }
    assert_kind_of Errno::ECONNREFUSED, unreachable.cause
    assert_equal 2, slept.size
  end

  def test_mark_all_read_without_an_end_is_not_repeated_after_a_lost_answer
    Front.open(:lose) do |front|
      assert_raises(Campanile::Unreachable) { client(url: front.url).inbox(user).mark_all_read }
      assert_equal 1, front.requests.size
    end
    Front.open(:lose) do |front|
      id = campanile.notify(user, title: "Hello").id
      assert_equal 0, client(url: front.url).inbox(user).mark_all_read(up_to: id).count
    end
  end

  def test_calls_share_a_kept_connection_and_threads_have_their_own
    Front.open do |front|
      campanile = client(url: front.url)
      3.times { campanile.notify(user, title: "Hello") }
      assert_equal 1, front.connections
      Array.new(4) { Thread.new { 5.times { campanile.notify(user, title: "Hello") } } }.each(&:join)
      assert_includes 1..4, front.connections
    end
    assert_equal 23, campanile.inbox(user).badge.count
  end

  def test_a_connection_whose_call_was_broken_off_is_not_used_again
    Front.open(:silent) do |front|
      campanile = client(url: front.url)
      assert_raises(Timeout::Error) { Timeout.timeout(0.2) { campanile.notify(user, title: "Hello") } }
      assert campanile.notify(user, title: "Hello").id
      assert_equal 2, front.connections
    end
  end

  def test_a_forked_process_leaves_its_parents_connections_alone
    Front.open do |front|
      campanile = client(url: front.url)
      campanile.notify(user, title: "Parent")
      children = Array.new(3) do
        fork do
          5.times { campanile.notify(user, title: "Child") }
          exit!(0)
        rescue StandardError
          exit!(1)
        end
      end
      5.times { campanile.notify(user, title: "Parent") }
      assert(children.all? { |child| Process.wait2(child)[1].success? })
      assert_equal 4, front.connections
    end
    assert_equal 21, campanile.inbox(user).badge.count
  end

  def test_broadcasts_whose_answer_was_lost_are_sent_again_only_under_ids
    one = { stream: "room", data: "x" }
    Front.open(:lose) do |front|
      assert_raises(Campanile::Unreachable) { client(url: front.url).broadcast([{ **one, id: SecureRandom.uuid }, one]) }
      assert_equal 1, front.requests.size
    end
    Front.open(:lose) do |front|
      assert_equal 1, client(url: front.url).broadcast([{ **one, "id" => SecureRandom.uuid }])
      assert_equal 2, front.requests.size
    end
  end

  def test_each_call_is_told_to_active_support
    skip "ActiveSupport isn't here" unless require_active_support
    events = []
    listener = ActiveSupport::Notifications.subscribe("request.campanile") { |*, event| events << event }
    Front.open([:refuse, 503]) { |front| client(url: front.url).notify(user, title: "Hello") }
    campanile.inbox(user).delete_device("secret-token")
    own.give_badge("#{user}/alice@example.com", count: 1, sequence: 1)
    campanile.withdraw("an-id", user: user)
    assert_equal [["POST", "/notifications", 201, 2], ["DELETE", "/device_tokens/…", 404, 1], ["PUT", "/users/{user_id}/badge", 200, 1],
                  ["DELETE", "/notifications/an-id", 404, 1]],
                 events.map { |event| event.values_at(:method, :path, :status, :attempts) }
  ensure
    ActiveSupport::Notifications.unsubscribe(listener) if listener
  end

  private

  def require_active_support
    require "active_support"
    require "active_support/notifications"
  rescue LoadError
    false
  else
    true
  end
end
