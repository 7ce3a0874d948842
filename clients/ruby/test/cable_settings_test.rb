require "test_helper"
require "rails/generators"
require "active_support/message_verifier"
require "campanile/tags"
require "generators/campanile/install/install_generator"

# The server's settings for an app's own broadcasts, as docs/broadcasts.md and the generator say them: a page of the app's, without a token, listens.
class CableSettingsTest < CampanileTest
  DOCUMENT = File.read(File.join(World::REPOSITORY, "docs/broadcasts.md"))
  SETTINGS = DOCUMENT[/^```yaml\n# campanile\.yaml\n(.*?)^```$/m, 1]
  ORIGIN = "https://www.example.com"

  def test_the_generator_prints_the_documents_settings
    assert_equal SETTINGS, Campanile::Generators::InstallGenerator::CABLE_YAML
  end

  def test_a_page_listens_to_a_signed_name
    World.serving(SETTINGS) do |port, folder|
      said = listen(port, ORIGIN, signed(folder, "room:7"))
      assert_equal %w[welcome confirm_subscription], said
    end
  end

  def test_each_setting_is_needed
    World.serving(SETTINGS.sub("true", "false")) { |port, folder| assert_equal ["disconnect"], listen(port, ORIGIN, signed(folder, "room:7")) }
    World.serving(SETTINGS) do |port, folder|
      assert_equal ["403"], listen(port, "https://other.example.com", signed(folder, "room:7"))
      assert_equal %w[welcome reject_subscription], listen(port, ORIGIN, "#{signed(folder, "room:7")}0")
    end
  end

  # `turbo_stream_from "notifications", current_user` is a usual stream of Rails apps.
  NOTIFICATIONS = "notifications:Z2lkOi8vc2hvcC9Vc2VyLzc"
  KEY = "a signing key that is shared with Rails"

  def test_a_badges_stream_may_have_another_name_that_leaves_rails_usual_one_to_the_app
    World.serving("cable: {signed_stream_key: \"#{KEY}\", signed_streams_only: true, stream_name: \"campanile:{user_id}\"}\n#{SETTINGS.lines.first}") do |port, folder|
      pages = client(url: "http://127.0.0.1:#{port}", broadcast_key: World.run("keys", "create", "pages", "--broadcast", folder: folder).strip)
      assert_equal 1, pages.broadcast([{ stream: NOTIFICATIONS, data: "x" }])
      assert_equal %w[welcome confirm_subscription], listen(port, ORIGIN, signed_for(7, "campanile:{user_id}"))
      assert_raises(Campanile::Invalid) { pages.broadcast([{ stream: "campanile:7", data: "x" }]) }
    end
    assert_raises(Campanile::Invalid) { campanile.broadcast([{ stream: NOTIFICATIONS, data: "x" }]) }
  end

  # As the gem's tag writes it.
  def signed_for(user_id, name)
    Campanile.configuration.signed_stream_key, Campanile.configuration.stream_name = KEY, name
    page = Object.new.extend(Campanile::Tags)
    page.instance_variable_set(:@campanile_user, Struct.new(:id).new(user_id))
    signed = page.campanile_signed_stream_name
    assert_equal "campanile:#{user_id}", JSON.parse(signed.split("--").first.unpack1("m"))
    signed
  ensure
    Campanile.configuration.signed_stream_key = Campanile.configuration.stream_name = nil
  end

  private

  def signed(folder, stream) = World.run("stream-name", stream, folder: folder).strip

  # The types of what a page of this origin is told until its subscription is answered, or the status that refuses its cable.
  def listen(port, origin, name)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("GET /cable HTTP/1.1\r\nHost: push.example.com\r\nOrigin: #{origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: #{["x" * 16].pack("m0")}\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n\r\n")
      status = socket.gets("\r\n\r\n")[/ (\d+) /, 1]
      return [status] unless status == "101"

      identifier = JSON.generate(channel: "Turbo::StreamsChannel", signed_stream_name: name)
      [heard(socket)].tap do |types|
        next unless types == ["welcome"]

        say(socket, JSON.generate(command: "subscribe", identifier: identifier))
        types << heard(socket)
      end
    end
  end

  # The type of the next message that is no ping.
  def heard(socket)
    Timeout.timeout(World::START_SECONDS) do
      loop do
        length = socket.read(2).getbyte(1)
        length = socket.read(2).unpack1("n") if length == 126
        type = JSON.parse(socket.read(length))["type"]
        return type unless type == "ping"
      end
    end
  end

  # Masked with zeros.
  def say(socket, text) = socket.write([0x81, 0xfe, text.bytesize, 0, text].pack("CCnNa*"))
end
