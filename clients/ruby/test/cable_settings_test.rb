require "test_helper"
require "rails/generators"
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
