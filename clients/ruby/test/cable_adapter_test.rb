require "test_helper"
require "action_cable"
require "action_cable/subscription_adapter/campanile"
require "front"

# With Debian's ActionCable.
class CableAdapterTest < CampanileTest
  # What an adapter has of its server.
  Server = Struct.new(:logger, :config) do
    def event_loop = @event_loop ||= ActionCable::Connection::StreamEventLoop.new
    def mutex = @mutex ||= Monitor.new
  end

  def broadcasts
    Front.open do |front|
      former = Campanile.broadcaster
      Campanile.instance_variable_set(:@broadcaster, Campanile::Broadcaster.new(client(url: front.url)))
      adapter = ActionCable::SubscriptionAdapter::Campanile.new(Server.new(Logger.new(IO::NULL)))
      yield adapter
      assert Campanile.broadcaster.flush(30)
      return front.requests.flat_map { |request| JSON.parse(request.split("\r\n\r\n", 2).last) }.map { |one| one.values_at("stream", "data") }
    ensure
      Campanile.instance_variable_set(:@broadcaster, former)
    end
  end

  def test_what_rails_broadcasts_goes_to_the_stream_as_pages_get_it
    html = %(<turbo-stream action="append" target="messages"><template>Grüße & "mehr"</template></turbo-stream>)
    assert_equal([["messages:7", html]], broadcasts { |adapter| adapter.broadcast("messages:7", ActiveSupport::JSON.encode(html)) })
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
