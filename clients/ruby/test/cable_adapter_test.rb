require "test_helper"
require "logger"
require "active_support/all"
require "action_cable"
require "front"

# With Debian's ActionCable, or another one in Ruby's path. It loads the adapter by its name, as from config/cable.yml.
class CableAdapterTest < CampanileTest
  def setup
    super
    ActionCable::Server::Base.config.tap { |config| config.cable, config.logger = { "adapter" => "campanile" }, Logger.new(IO::NULL) }
    @cable = ActionCable::Server::Base.new
  end

  def teardown = Campanile.client = nil

  # Answers the streams and the texts that the block sends.
  def broadcasts
    Front.open do |front|
      Campanile.client = client(url: front.url)
      yield
      assert Campanile.broadcaster.flush(30)
      return front.requests.flat_map { |request| JSON.parse(request.split("\r\n\r\n", 2).last) }.map { |one| one.values_at("stream", "data") }
    end
  end

  # Has a channel of the app's own hear.
  def hear
    heard = Queue.new
    @cable.pubsub.subscribe("chat", ->(message) { heard << message }, -> { heard << "begun" })
    assert_equal "begun", pop(heard)
    heard
  end

  def pop(heard) = Timeout.timeout(30) { heard.pop }

  def test_what_rails_broadcasts_goes_to_the_stream_as_pages_get_it
    html = %(<turbo-stream action="append" target="messages"><template>Grüße & "mehr"</template></turbo-stream>)
    assert_equal([["messages:7", html]], broadcasts { @cable.broadcast("messages:7", html) })
  end

  def test_texts_of_rails_own_kinds_are_texts
    safe = ActiveSupport::SafeBuffer.new("<p>7</p>")
    assert_equal([["messages:7", "<p>7</p>"]] * 2, broadcasts { [nil, ActiveSupport::JSON].each { |coder| @cable.broadcast("messages:7", safe, coder: coder) } })
  end

  def test_what_is_no_text_goes_only_to_this_process_own_channels
    heard = hear
    sent = broadcasts do
      [{ a: 1 }, [1], 7, nil].each { |message| @cable.broadcast("chat", message) }
      assert_equal ["7", "[1]", "null", '{"a":1}'], Array.new(4) { pop(heard) }.sort
    end
    assert_empty sent
  end

  def test_without_a_coder_a_text_that_is_no_json_goes_and_what_is_no_text_raises_nothing
    assert_equal([["chat", "a"]], broadcasts { [{ a: 1 }, "a", nil].each { |message| @cable.broadcast("chat", message, coder: nil) } })
  end

  def test_a_broadcast_that_can_not_go_raises_after_the_apps_own_channels_heard_it
    heard = hear
    Campanile.client = Campanile::Client.new(Campanile::Configuration.new({}))
    assert_raises(Campanile::ConfigurationError) { @cable.broadcast("chat", "<p></p>") }
    assert_equal "<p></p>", JSON.parse(pop(heard))
  end

  def test_a_restart_of_the_cable_waits_for_no_broadcast_and_loses_none
    now = 0
    stuck = Campanile::Broadcaster.new(client(url: "http://127.0.0.1:1"), clock: -> { now }, sleep: ->(_) { Thread.pass })
    Campanile.instance_variable_set(:@broadcaster, stuck)
    @cable.broadcast("messages:7", "x")
    Timeout.timeout(2) { @cable.restart }
    refute stuck.flush(0)
    now = 31
    capture_io { assert stuck.flush(30) }
  end
end
