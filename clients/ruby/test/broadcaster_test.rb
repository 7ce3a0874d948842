require "test_helper"
require "front"

class BroadcasterTest < CampanileTest
  SECONDS = 30

  def setup
    super
    @now = 0
  end

  def broadcaster(**settings)
    Campanile::Broadcaster.new(client(**settings), clock: -> { @now }, sleep: ->(_) { Thread.pass })
  end

  def offset = campanile.broadcast_position.split(":").last.to_i

  def sent(front) = front.requests.map { |request| JSON.parse(request.split("\r\n\r\n", 2).last) }

  def test_broadcasts_go_in_their_order_and_in_few_calls
    before = offset
    Front.open do |front|
      mine = broadcaster(url: front.url)
      250.times { |number| mine.broadcast("messages", number.to_s) }
      assert mine.flush(SECONDS)
      assert_equal (0...250).map(&:to_s), sent(front).flatten.map { |one| one["data"] }
      assert_operator front.requests.size, :<=, 200
      assert_operator sent(front).map(&:size).max, :<=, 100
    end
    assert_equal before + 250, offset
  end

  def test_what_was_lost_on_the_way_is_sent_again_under_its_id_and_counts_once
    before = offset
    Front.open(:lose, [:refuse, 503], :drop) do |front|
      mine = broadcaster(url: front.url)
      mine.broadcast("messages", "x")
      assert mine.flush(SECONDS)
      assert_equal [4, 1], [sent(front).size, sent(front).map { |call| call[0]["id"] }.uniq.size]
    end
    assert_equal before + 1, offset
  end

  def test_after_half_a_minute_it_is_lost_and_the_next_call_says_so_once
    mine = broadcaster(url: "http://127.0.0.1:1")
    _, said = capture_io do
      mine.broadcast("messages", "x")
      refute mine.flush(0.2)
      @now = 31
      assert mine.flush(SECONDS)
    end
    assert_includes said, "1 broadcasts were lost"
    lost = assert_raises(Campanile::BroadcastsLost) { mine.broadcast("messages", "y") }
    assert_kind_of Campanile::Unreachable, lost.cause
    mine.broadcast("messages", "z")
    @now = 100
    capture_io { assert mine.flush(SECONDS) }
  end

  def test_one_that_is_refused_keeps_no_other_back
    before = offset
    mine = broadcaster
    capture_io do
      ["a", "notifications:alice", "b"].each { |stream| mine.broadcast(stream, "x") }
      assert mine.flush(SECONDS)
    end
    assert_equal before + 2, offset
    lost = assert_raises(Campanile::BroadcastsLost) { mine.broadcast("a", "y") }
    assert_kind_of Campanile::Invalid, lost.cause
  end

  def test_a_producers_key_broadcasts_nothing
    mine = broadcaster(broadcast_key: World.key)
    capture_io do
      mine.broadcast("messages", "x")
      assert mine.flush(SECONDS)
    end
    assert_kind_of Campanile::Forbidden, assert_raises(Campanile::BroadcastsLost) { mine.broadcast("messages", "y") }.cause
  end

  def test_more_than_may_wait_and_more_than_one_may_have_is_refused
    mine = broadcaster(url: "http://127.0.0.1:1")
    1_000.times { mine.broadcast("messages", "x") }
    assert_raises(Campanile::BroadcastsLost) { mine.broadcast("messages", "x") }
    assert_raises(ArgumentError) { mine.broadcast("messages", "x" * 65_537) }
    @now = 31
    capture_io { assert mine.flush(SECONDS) }
    large = broadcaster(url: "http://127.0.0.1:1")
    assert_raises(Campanile::BroadcastsLost) { 300.times { large.broadcast("messages", "x" * 65_536) } }
    @now = 62
    capture_io { assert large.flush(SECONDS) }
  end

  def test_a_forked_process_sends_its_own_and_not_its_parents
    before = offset
    mine = broadcaster
    mine.broadcast("messages", "parent's")
    assert mine.flush(SECONDS)
    process = fork do
      mine.broadcast("messages", "child's")
      exit!(mine.flush(SECONDS))
    end
    assert_predicate Process.wait2(process)[1], :success?
    mine.broadcast("messages", "parent's again")
    assert mine.flush(SECONDS)
    assert_equal before + 3, offset
  end
end
