require "test_helper"
require "logger"
require "front"

class BroadcasterTest < CampanileTest
  SECONDS = 30
  NOWHERE = "http://127.0.0.1:1"

  def setup
    super
    @now = @pauses = 0
  end

  def broadcaster(**settings)
    Campanile::Broadcaster.new(client(**settings), clock: -> { @now }, sleep: ->(_) { @pauses += 1 })
  end

  # Lets it be a time until attempts have failed then.
  def at(time)
    @now, before = time, @pauses
    Timeout.timeout(SECONDS) { Thread.pass until @pauses >= before + 3 }
  end

  # Yields one that can't reach its server, and answers what it says.
  def out_of_reach(**settings)
    mine = broadcaster(url: NOWHERE, **settings)
    capture_io do
      yield mine
      @now += 1_000
      assert mine.flush(SECONDS)
    end.last
  end

  def offset = campanile.broadcast_position.split(":").last.to_i

  def sent(front) = front.requests.map { |request| JSON.parse(request.split("\r\n\r\n", 2).last) }

  def data(front) = sent(front).flatten.map { |one| one["data"] }

  # In a Rails that the block alone sees, with what it gives: answers what the log has, and the errors that are reported with their fields.
  def in_rails(fails: false, logger: nil)
    log, reported = StringIO.new, []
    reporter = Object.new
    reporter.define_singleton_method(:report) do |error, **fields|
      reported << [error, fields]
      raise "on purpose" if fails
    end
    former = Object.send(:remove_const, :Rails) if defined?(::Rails)
    Object.const_set(:Rails, Struct.new(:logger, :error).new(logger || Logger.new(log), reporter))
    yield
    [log.string, reported]
  ensure
    Object.send(:remove_const, :Rails)
    Object.const_set(:Rails, former) if former
  end

  def test_broadcasts_go_in_their_order_and_in_few_calls
    before = offset
    Front.open do |front|
      mine = broadcaster(url: front.url)
      250.times { |number| mine.broadcast("messages", number.to_s) }
      assert mine.flush(SECONDS)
      assert_equal (0...250).map(&:to_s), data(front)
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
      assert_equal [4, 1, 3], [sent(front).size, sent(front).map { |call| call[0]["id"] }.uniq.size, @pauses]
    end
    assert_equal before + 1, offset
  end

  # As a proxy does between two releases.
  def test_a_404_or_408_without_a_code_is_sent_again
    before = offset
    Front.open([:refuse, 404], [:refuse, 408], [:refuse, 405]) do |front|
      mine = broadcaster(url: front.url)
      said = capture_io do
        mine.broadcast("messages", "x")
        assert mine.flush(SECONDS)
      end.last
      assert_equal [3, 2], [sent(front).size, @pauses]
      assert_match(/1 broadcasts were lost: 405/, said)
      mine.broadcast("messages", "y")
      assert mine.flush(SECONDS)
    end
    assert_equal before + 1, offset
  end

  def test_a_404_of_the_servers_own_is_refused
    Front.open([:refuse, 404, "not_found"]) do |front|
      mine = broadcaster(url: front.url)
      assert_match(/lost: 404 not_found/, capture_io { mine.broadcast("messages", "x") && mine.flush(SECONDS) }.last)
    end
  end

  def test_what_comes_while_another_is_sent_again_stays_behind_it
    Front.open(*([[:refuse, 503]] * 20), *([:lose, :pass] * 5)) do |front|
      mine = broadcaster(url: front.url)
      200.times do |number|
        mine.broadcast("messages", number.to_s)
        Thread.pass
      end
      assert mine.flush(SECONDS)
      assert_operator sent(front).size, :>, 20
      assert_equal (0...200).map(&:to_s), sent(front).flatten.uniq { |one| one["id"] }.map { |one| one["data"] }
    end
  end

  def test_it_is_sent_again_for_half_a_minute
    said = out_of_reach do |mine|
      mine.broadcast("messages", "first")
      at 20
      mine.broadcast("messages", "second")
      at 30
      mine.broadcast("messages", "third")
      at 31
    end
    assert_equal ["1 broadcasts", "2 broadcasts"], said.scan(/\d broadcasts/)
  end

  # The next caller may be another row's after_commit, which an error would end.
  def test_a_loss_is_told_to_the_log_and_to_rails_and_the_next_broadcast_goes
    before = offset
    Front.open do |front|
      mine = broadcaster(url: front.url)
      front.next_is(:refuse, 422)
      log, reported = in_rails do
        mine.broadcast("messages", "refused")
        assert mine.flush(SECONDS)
        mine.broadcast("messages", "next")
        assert mine.flush(SECONDS)
      end
      assert_match(/ERROR.*Campanile: 1 broadcasts were lost: 422/, log)
      (error, fields), *others = reported
      assert_equal [Campanile::BroadcastsLost, Campanile::Problem, { handled: true }, []], [error.class, error.cause.class, fields, others]
      assert_equal "next", data(front).last
    end
    assert_equal before + 1, offset
  end

  # The process may end then.
  def test_a_loss_is_told_before_whoever_waits_for_it_goes_on
    Front.open do |front|
      mine, done = broadcaster(url: front.url), []
      front.next_is(:refuse, 422)
      logger = Object.new
      logger.define_singleton_method(:error) { |_| done << mine.flush(0) }
      in_rails(logger: logger) do
        mine.broadcast("messages", "refused")
        assert mine.flush(SECONDS)
      end
      assert_equal [false], done
    end
  end

  def test_a_reporter_that_fails_keeps_no_other_back
    before = offset
    Front.open do |front|
      mine = broadcaster(url: front.url)
      front.next_is(:refuse, 422)
      log, = in_rails(fails: true) do
        2.times do
          mine.broadcast("messages", "x")
          assert mine.flush(SECONDS)
        end
      end
      assert_includes log, "Rails.error: on purpose"
    end
    assert_equal before + 1, offset
  end

  def test_one_that_is_refused_keeps_no_other_back_and_their_order_stays
    before = offset
    Front.open(*([[:refuse, 503]] * 3)) do |front|
      mine = broadcaster(url: front.url)
      said = capture_io do
        100.times { |number| mine.broadcast(number == 70 ? "notifications:alice" : "messages", number.to_s) }
        assert mine.flush(SECONDS)
      end.last
      assert_includes said, "1 broadcasts were lost"
      assert_operator front.requests.size, :<, 60, "it is looked for by halves"
    end
    assert_equal before + 99, offset
  end

  def test_text_that_is_none_is_lost_alone
    before = offset
    mine = broadcaster
    said = capture_io do
      ["a", "\xff", "b"].each { |text| mine.broadcast("messages", text) }
      assert mine.flush(SECONDS)
    end.last
    assert_equal before + 2, offset
    assert_match(/ 1 broadcasts were lost/, said)
  end

  def test_a_key_that_may_not_broadcast_loses_all_in_one_call
    Front.open do |front|
      mine = broadcaster(url: front.url, broadcast_key: World.key)
      _, reported = in_rails do
        50.times { mine.broadcast("messages", "x") }
        assert mine.flush(SECONDS)
      end
      assert_operator front.requests.size, :<=, 50
      assert_equal 50, sent(front).sum(&:size), "none is sent twice"
      assert_equal [Campanile::Forbidden], reported.map { |error, _| error.cause.class }.uniq
    end
  end

  def test_without_a_key_the_call_itself_raises
    without = Campanile::Broadcaster.new(Campanile::Client.new(Campanile::Configuration.new({})))
    assert_raises(Campanile::ConfigurationError) { without.broadcast("messages", "x") }
    assert without.flush(0)
  end

  def test_more_than_may_wait_and_more_than_one_may_have_is_refused
    out_of_reach do |mine|
      1_000.times { mine.broadcast("messages", "x") }
      full = assert_raises(Campanile::BroadcastsLost) { mine.broadcast("messages", "x") }
      assert_includes full.message, "this one is lost"
      assert_kind_of Campanile::Unreachable, full.cause
      assert_raises(ArgumentError) { mine.broadcast("messages", "x" * 65_537) }
    end
    out_of_reach do |mine|
      assert_raises(Campanile::BroadcastsLost) { 300.times { mine.broadcast("messages", "x" * 65_536) } }
    end
  end

  def test_a_program_that_is_faster_than_a_server_that_answers_waits_for_it
    before = offset
    mine = broadcaster
    3_000.times { mine.broadcast("messages", "x") }
    assert mine.flush(SECONDS)
    assert_equal before + 3_000, offset
  end

  def test_behind_a_server_that_hangs_all_together_wait_a_second_for_room
    Front.open(*([:silent] * 3)) do |front|
      said = capture_io do
        mine = broadcaster(url: front.url, read_timeout: 2)
        1_000.times { mine.broadcast("messages", "x") }
        start = now
        4.times { assert_raises(Campanile::BroadcastsLost) { mine.broadcast("messages", "x") } }
        assert_operator now - start, :<, 1.9
        @now += 1_000
        assert mine.flush(SECONDS)
      end.last
      assert_match(/lost/, said)
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def test_several_threads_have_one_broadcaster_and_each_its_order
    Front.open do |front|
      former, Campanile.client = Campanile.client, client(url: front.url)
      4.times.map { |one| Thread.new { 100.times { |number| Campanile.broadcaster.broadcast("messages", "#{one} #{number}") } } }.each(&:join)
      assert Campanile.broadcaster.flush(SECONDS)
      4.times { |one| assert_equal (0...100).to_a, data(front).grep(/\A#{one} /).map { |text| text.split[1].to_i } }
    ensure
      Campanile.client = former
    end
  end

  def test_a_former_clients_broadcaster_sends_what_waits_and_ends_its_thread
    before, threads = offset, Thread.list
    Front.open([:refuse, 503]) do |front|
      former, Campanile.client = Campanile.client, client(url: front.url)
      mine = Campanile.broadcaster
      mine.broadcast("messages", "x")
      Campanile.client = former
      assert mine.flush(SECONDS)
      ended(threads)
      mine.broadcast("messages", "y")
      assert mine.flush(SECONDS)
      ended(threads)
    end
    assert_equal before + 2, offset
  end

  # Waits until no broadcaster has a thread that isn't among these.
  def ended(threads)
    Timeout.timeout(SECONDS) { Thread.pass until (Thread.list - threads).none? { |thread| thread.backtrace.to_a.join.include?("broadcaster.rb") } }
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

  def test_what_waits_at_a_fork_is_the_parents_alone
    out_of_reach do |mine|
      mine.broadcast("messages", "parent's")
      process = fork { exit!(mine.flush(0)) }
      assert_predicate Process.wait2(process)[1], :success?, "the child waits for nothing"
      refute mine.flush(0)
    end
  end

  # Each line is a program's.
  {
    "that_ends_by_itself" => "",
    "that_raises" => "raise 'on purpose'",
    "that_is_told_to_end" => "Process.kill(:TERM, $$); sleep",
    "that_takes_another_client" => "Campanile.client = nil; Campanile.broadcaster",
    "whose_fork_ends" => "Process.wait(fork { Campanile.broadcaster.broadcast('messages', 'y') })"
  }.each do |name, line|
    define_method(:"test_a_program_#{name}_sends_what_waits") do
      before = offset
      program("10.times { Campanile.broadcaster.broadcast('messages', 'x') }\n#{line}", World.url)
      assert_equal before + 10 + line.scan("'y'").size, offset
    end
  end

  # Before Rails 7 there is no Rails.error.
  def test_an_older_rails_log_has_what_is_lost
    log, = in_rails do
      Rails.singleton_class.undef_method(:error)
      assert_empty(out_of_reach { |mine| mine.broadcast("messages", "x") })
    end
    assert_match(/ERROR.*Campanile: 1 broadcasts were lost: /, log)
  end

  def test_a_program_that_ends_without_its_server_says_what_it_loses
    assert_includes program("Campanile::Broadcaster::LAST_SECONDS = 0.1\n2.times { Campanile.broadcaster.broadcast('messages', 'x') }", NOWHERE),
                    "2 broadcasts are lost with this process"
  end

  def program(text, url)
    environment = { "CAMPANILE_URL" => url, "CAMPANILE_BROADCAST_KEY" => World.broadcast_key }
    IO.popen([environment, RbConfig.ruby, "-I#{File.expand_path("../lib", __dir__)}", "-rcampanile", "-e", text, err: %i[child out]], &:read)
  end
end
