module Campanile
  # Makes a call, and repeats it while that may help and does no harm.
  class HTTP
    # What Net::HTTP raises where no answer came, or none that can be read.
    LOST = [
      SystemCallError, SocketError, IOError, Net::OpenTimeout, Net::ReadTimeout, Net::WriteTimeout, OpenSSL::SSL::SSLError, Net::ProtocolError,
      Net::HTTPBadResponse
    ].freeze
    # After these the call has surely had no effect.
    NOT_TAKEN = [Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::ENETUNREACH, SocketError, Net::OpenTimeout].freeze
    # Seconds before the second attempt; the third waits twice as long. A random part is added, so that callers don't come in step.
    FIRST_WAIT = 0.5
    # Seconds. An answer that asks for more is raised at once: a thread has better to do, and a job can come back.
    LONGEST_WAIT = 10

    # An answer: the parsed JSON, nil without one, and the head's fields in lower case.
    Answer = Struct.new(:status, :json, :headers)

    # `sleep` waits between two attempts.
    def initialize(configuration, sleep: Kernel.method(:sleep))
      @configuration, @sleep = configuration, sleep
      @pool = ConnectionPool.new(configuration)
    end

    # `repeatable` says that a call which took effect, unknown to us, may be made again. `attempts` and `timeout`, in seconds for each step,
    # replace the configuration's.
    def call(method, path, credential:, body: nil, headers: {}, repeatable: true, attempts: nil, timeout: nil)
      attempts ||= @configuration.attempts
      made = 0
      Instrumentation.around(method, path) do |event|
        made += 1
        event[:attempts] = made
        answer = once(method, path, credential, body, headers, timeout)
        event[:status] = answer.status
        answer
      rescue Problem, *LOST => error
        event[:status], error.attempts = error.status, made if error.is_a?(Problem)
        wait = made < attempts ? wait_after(error, made, repeatable) : nil
        raise(error.is_a?(Problem) ? error : Unreachable.new("#{method} #{event[:path]}: #{error.message}")) unless wait

        @sleep.call(wait)
        retry
      end
    end

    def close = @pool.close_all

    private

    def once(method, path, credential, body, headers, timeout)
      request = Net::HTTP.const_get(method.capitalize).new(path, { "User-Agent" => "campanile-ruby/#{VERSION}", **headers })
      request["Authorization"] = "Bearer #{credential}"
      request["Accept"] = "application/json, application/problem+json"
      # Without a type Net::HTTP names one of its own, also where there is no body.
      request["Content-Type"] = "application/json" if request.request_body_permitted?
      request.body = body if body
      read(@pool.with(timeout) { |connection| connection.request(request) })
    end

    def read(response)
      status = response.code.to_i
      text = response.body.to_s
      unless status.between?(200, 299)
        raise Problem.of(status: status, body: text, content_type: response.content_type, retry_after: seconds(response["Retry-After"]))
      end
      Answer.new(status, text.empty? ? nil : JSON.parse(text), response.to_hash.transform_values(&:first))
    rescue JSON::ParserError
      raise Net::HTTPBadResponse, "the answer is no JSON"
    end

    # Of a Retry-After: a number, or a date (RFC 9110 section 10.2.3).
    def seconds(text)
      return text&.to_i if text.nil? || text.match?(/\A\d+\z/)

      [(Time.httpdate(text) - Time.now).ceil, 0].max
    rescue ArgumentError
      nil
    end

    # Seconds until the next attempt; nil if there is to be none.
    def wait_after(error, made, repeatable)
      return nil unless helps?(error, repeatable)

      asked = error.is_a?(Problem) ? error.retry_after.to_i : 0
      return nil if asked > LONGEST_WAIT

      [FIRST_WAIT * 2**(made - 1), asked].max * rand(1.0..1.5)
    end

    def helps?(error, repeatable)
      return false if error.is_a?(Problem) && !error.is_a?(Passing)

      repeatable || NOT_TAKEN.any? { |kind| error.is_a?(kind) } || (error.is_a?(Problem) && error.status == 429)
    end
  end

  # Tells ActiveSupport::Notifications, where the program has it, of each call: `request.campanile` with method, path, status and
  # attempts. Of the path a device token and a user's id are left out: what subscribes may keep it anywhere.
  module Instrumentation
    def self.around(method, path, &call)
      event = { method: method, path: path[/[^?]*/].sub(%r{\A/device_tokens/.*}, "/device_tokens/…").sub(%r{\A/users/[^/]+}, "/users/{user_id}") }
      return call.call(event) unless defined?(::ActiveSupport::Notifications)

      ::ActiveSupport::Notifications.instrument("request.campanile", event) { call.call(event) }
    end
  end
end
