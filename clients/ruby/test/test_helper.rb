require "minitest/autorun"
require "campanile"
require "socket"
require "tmpdir"

# A warning about this repository's own code is a failure.
module Warning
  def self.warn(text, **)
    text.include?(File.expand_path("..", __dir__)) ? raise(text) : super
  end
end

# What the tests stand on: a real server, with an empty database, that lives as long as they do. CAMPANILE_PROGRAM names the program.
module World
  REPOSITORY = File.expand_path("../../..", __dir__)
  PROGRAM = ENV.fetch("CAMPANILE_PROGRAM") { File.join(REPOSITORY, ".build/debug/campanile") }
  SECRET = "a secret of the gem's tests, which is long enough"
  START_SECONDS = 120

  class << self
    # `own_key` is of the app `own`, whose badge is given.
    attr_reader :url, :key, :own_key, :broadcast_key

    def start
      @folder = Dir.mktmpdir("campanile-gem-")
      File.write(File.join(@folder, "campanile.yaml"), "apps: {own: {badge: {policy: given}}}\n")
      @key = run("keys", "create", "gem").strip
      @own_key = run("keys", "create", "own", "--app", "own").strip
      @broadcast_key = run("keys", "create", "pages", "--broadcast").strip
      @process, port = serve(@folder)
      @url = "http://127.0.0.1:#{port}"
    end

    # Another server with these settings: yields its port and its folder.
    def serving(settings)
      Dir.mktmpdir("campanile-gem-") do |folder|
        File.write(File.join(folder, "campanile.yaml"), settings)
        process, port = serve(folder)
        yield port, folder
      ensure
        process && Process.kill("KILL", process) && Process.wait(process)
      end
    end

    # Runs a command of the program, and answers what it prints.
    def run(*command, folder: @folder)
      text = IO.popen([PROGRAM, *command, "--database", database(folder)], chdir: folder, err: File::NULL, &:read)
      raise "campanile #{command.join(" ")} failed" unless $?.success?

      text
    end

    def stop
      Process.kill("KILL", @process) if @process
      FileUtils.rm_rf(@folder)
    end

    def configuration(url: self.url, **settings)
      Campanile::Configuration.new({}).tap do |made|
        { url: url, key: key, broadcast_key: broadcast_key, jwt_secret: SECRET, **settings }.each { |name, value| made.public_send(:"#{name}=", value) }
      end
    end

    def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }

    private

    def database(folder) = File.join(folder, "campanile.sqlite")

    def serve(folder)
      port, log = free_port, File.join(folder, "server.log")
      process = Process.spawn(
        { "CAMPANILE_JWT_SECRET" => SECRET }, "setpriv", "--pdeathsig", "KILL", PROGRAM, "serve", "--port", port.to_s, "--database", database(folder),
        out: log, err: %i[child out], chdir: folder)
      wait(port, log)
      [process, port]
    end

    def wait(port, log)
      deadline = now + START_SECONDS
      until answers?(port)
        raise "the server doesn't start:\n#{File.read(log)}" if now > deadline

        sleep 0.05
      end
    end

    def answers?(port)
      Net::HTTP.get_response(URI("http://127.0.0.1:#{port}/healthz")).is_a?(Net::HTTPOK)
    rescue SystemCallError
      false
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

World.start
Minitest.after_run { World.stop }

class CampanileTest < Minitest::Test
  # What a call slept between its attempts, instead of sleeping it.
  attr_reader :slept

  def setup
    @slept = []
    # A user of its own for each test.
    @user = "#{name}-#{SecureRandom.hex(4)}"
  end

  attr_reader :user

  def client(**settings)
    configuration = World.configuration(**settings)
    Campanile::Client.new(configuration, http: Campanile::HTTP.new(configuration, sleep: slept.method(:push)))
  end

  def campanile = @campanile ||= client

  # Of the app whose badge is given.
  def own = @own ||= client(key: World.own_key, app: "own")
end
