require "test_helper"
require "action_cable"
require "action_cable/subscription_adapter/campanile"
require "front"

# With Debian's ActionCable, or another one in Ruby's path.
class CableAdapterTest < CampanileTest
  # What an adapter has of its server.
  Server = Struct.new(:logger, :config) do
    def event_loop = @event_loop ||= ActionCable::Connection::StreamEventLoop.new
    def mutex = @mutex ||= Monitor.new

    # Rails 8.2 has it in the place of the loop.
    def executor = event_loop
  end

  def broadcasts
    Front.open do |front|
      former, Campanile.client = Campanile.client, client(url: front.url)
      adapter = ActionCable::SubscriptionAdapter::Campanile.new(Server.new(Logger.new(IO::NULL)))
      yield adapter
      assert Campanile.broadcaster.flush(30)
      return front.requests.flat_map { |request| JSON.parse(request.split("\r\n\r\n", 2).last) }.map { |one| one.values_at("stream", "data") }
    ensure
      Campanile.client = former
    end
  end

  def test_what_rails_broadcasts_goes_to_the_stream_as_pages_get_it
    html = %(<turbo-stream action="append" target="messages"><template>Grüße & "mehr"</template></turbo-stream>)
    assert_equal([["messages:7", html]], broadcasts { |adapter| adapter.broadcast("messages:7", ActiveSupport::JSON.encode(html)) })
  end

  def test_a_text_that_is_not_encoded_goes_as_it_is
    assert_equal([["messages:7", "<p>7</p>"]], broadcasts { |adapter| adapter.broadcast("messages:7", "<p>7</p>") })
  end

  def test_a_restart_of_the_cable_waits_for_no_broadcast
    now = 0
    stuck = Campanile::Broadcaster.new(client(url: "http://127.0.0.1:1"), clock: -> { now }, sleep: ->(_) { Thread.pass })
    Campanile.instance_variable_set(:@broadcaster, stuck)
    adapter = ActionCable::SubscriptionAdapter::Campanile.new(Server.new(Logger.new(IO::NULL)))
    adapter.broadcast("messages:7", %("x"))
    Timeout.timeout(2) { adapter.shutdown }
    refute stuck.flush(0)
    now = 31
    capture_io { assert stuck.flush(30) }
  ensure
    Campanile.client = nil
  end

  def test_what_a_channel_of_the_apps_own_no_longer_hears
    heard = Queue.new
    broadcasts do |adapter|
      gone, there = %w[gone there].map { |one| ->(message) { heard << [one, message] } }
      [gone, there].each { |one| adapter.subscribe("chat", one, -> { heard << "begun" }) }
      2.times { assert_equal "begun", heard.pop }
      adapter.unsubscribe("chat", gone)
      adapter.broadcast("chat", %({"a":1}))
      assert_equal ["there", %({"a":1})], heard.pop
    end
    assert_empty heard
  end

  def test_what_is_no_text_goes_only_to_this_process_own_channels
    heard = Queue.new
    sent = broadcasts do |adapter|
      adapter.subscribe("chat", ->(message) { heard << message }, -> { heard << "begun" })
      assert_equal "begun", heard.pop
      adapter.broadcast("chat", %({"a":1}))
      assert_equal %({"a":1}), heard.pop
    end
    assert_empty sent
  end
end
