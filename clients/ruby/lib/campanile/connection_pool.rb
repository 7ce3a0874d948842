module Campanile
  # Connections that are kept open for the next call. Each serves one call at a time.
  class ConnectionPool
    # How many wait for a call at most; more are closed after theirs.
    KEPT = 16
    # Seconds after which an unused one is opened anew. The server ends it after 75, most proxies after 60.
    KEPT_SECONDS = 50

    def initialize(configuration)
      @configuration = configuration
      @idle, @inherited, @mutex, @process = [], [], Mutex.new, Process.pid
    end

    # Yields a connection and answers what the block does. One whose call didn't end, for whatever reason, is closed. `timeout` replaces the
    # configuration's time limits.
    def with(timeout = nil)
      connection = take || open(timeout)
      connection.open_timeout = timeout || @configuration.open_timeout # it may connect anew
      connection.read_timeout = connection.write_timeout = timeout || @configuration.read_timeout
      ended = false
      yield(connection).tap { ended = true }
    ensure
      ended ? keep(connection) : close(connection) if connection
    end

    def close_all
      idle = @mutex.synchronize do
        leave_inherited
        @idle.slice!(0..)
      end
      idle.each { |connection| close(connection) }
    end

    private

    def take
      @mutex.synchronize do
        leave_inherited
        @idle.pop
      end
    end

    # After a fork the parent goes on with its connections. Here they must be neither used nor closed, which with TLS would say so to the
    # server, so they are kept from the collector.
    def leave_inherited
      return if @process == Process.pid

      @inherited.concat(@idle)
      @idle.clear
      @process = Process.pid
    end

    def open(timeout)
      uri = URI.parse(@configuration.url)
      # No second attempt of Net::HTTP's own: it knows neither the key of a call nor how often it was made.
      Net::HTTP.start(
        uri.hostname, uri.port, use_ssl: uri.scheme == "https", max_retries: 0, keep_alive_timeout: KEPT_SECONDS,
        open_timeout: timeout || @configuration.open_timeout)
    end

    def keep(connection)
      kept = @mutex.synchronize { @idle.push(connection) if @idle.size < KEPT }
      close(connection) unless kept
    end

    def close(connection)
      connection.finish if connection.started?
    rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
      nil # it is closed
    end
  end
end
