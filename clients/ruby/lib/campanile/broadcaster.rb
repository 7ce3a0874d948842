module Campanile
  # Broadcasts were lost: the server didn't take them for 30 s, or refused them, or too many waited. `cause` is what the last attempt raised.
  class BroadcastsLost < Error; end

  # Sends a program's broadcasts in their order, from a thread of its own. A request waits for none of them; where the
  # most wait already, it waits for room until a second after the last that was taken. Each has an id, under which the server takes it once, however often it is sent. What waits is lost
  # with the process.
  class Broadcaster
    # The broadcasts and their bytes that may wait.
    MOST = 1_000
    MOST_BYTES = 16 * 1_024 * 1_024
    # Seconds after the last that was sent or lost, until which one waits for room.
    ROOM_SECONDS = 1
    # The bytes of one, and of a call's texts together: JSON may write a character in six, and a call has 256 KiB.
    BYTES = 64 * 1_024
    CALL_BYTES = 160 * 1_024
    # Seconds for which one is sent again.
    SECONDS = 30
    # Seconds between two attempts, at first and at most.
    WAITS = (0.1..1.0)
    # Seconds that a program which ends gives to what waits.
    LAST_SECONDS = 5
    # What would refuse each of a call's broadcasts alone too.
    HOPELESS = [ConfigurationError, Unauthorized, Forbidden].freeze

    Waiting = Struct.new(:stream, :data, :id, :deadline) do
      def bytes = stream.bytesize + data.bytesize
      def fields = { stream: stream, data: data, id: id }
    end

    # `clock` gives seconds that only grow, and `sleep` waits between two attempts.
    def initialize(client, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }, sleep: Kernel.method(:sleep))
      @clock, @sleep = clock, sleep
      @client, @mutex, @changed = client, Mutex.new, ConditionVariable.new
      begin_anew
    end

    # Puts a text on its way to the pages that listen to a stream. Raises BroadcastsLost if there is no room for it. What is lost later is told
    # to the log and to Rails.error: whoever broadcasts next didn't lose it.
    def broadcast(stream, data)
      stream, data = stream.to_s, data.to_s
      raise ArgumentError, "A broadcast has #{BYTES} bytes at most, and this one #{data.bytesize}." if data.bytesize > BYTES

      @client.configuration.broadcast_key # raises where there is none
      @mutex.synchronize do
        begin_anew unless @process == Process.pid
        one = Waiting.new(stream, data, SecureRandom.uuid, @clock.call + SECONDS)
        wait_for_room(one)
        raise BroadcastsLost, "#{@waiting.size} broadcasts wait for #{@client.configuration.url}: this one is lost.", cause: @failure unless room?(one)

        @settled_at = monotonic if @waiting.empty?
        @waiting << one
        @bytes += one.bytes
        @thread = Thread.new { send_all } unless @thread&.alive?
        @changed.broadcast
      end
    end

    # Waits until everything is sent or lost, for so many seconds at most. Answers whether it is.
    def flush(seconds)
      @mutex.synchronize do
        begin_anew unless @process == Process.pid
        wait(seconds) { @waiting.empty? }
      end
    end

    # Ends its thread when everything is sent or lost.
    def retire
      @mutex.synchronize do
        @is_retired = true
        @changed.broadcast
      end
    end

    # Gives what waits its time before the program ends.
    def leave
      return if flush(LAST_SECONDS)

      say "#{@mutex.synchronize { @waiting.size }} broadcasts are lost with this process."
    end

    private

    # Also after a fork: what waits is the parent's to send.
    def begin_anew
      @waiting, @bytes, @failure, @thread, @process = [], 0, nil, nil, Process.pid
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Waits for changes until the block says yes, and answers what it said last.
    def wait(seconds)
      deadline = monotonic + seconds
      until (answer = yield)
        left = deadline - monotonic
        return answer unless left.positive?

        @changed.wait(@mutex, left)
      end
      answer
    end

    def room?(one) = @waiting.size < MOST && @bytes + one.bytes <= MOST_BYTES

    def wait_for_room(one)
      return if room?(one)

      wait(@settled_at + ROOM_SECONDS - monotonic) { room?(one) || @failure }
    end

    def send_all
      pause = WAITS.begin
      while (batch = next_batch)
        failure = attempt(batch)
        note(failure)
        next pause = WAITS.begin unless failure

        @sleep.call(pause * rand(0.5..1.0))
        pause = [pause * 2, WAITS.end].min
        lose_late(failure)
      end
    end

    # Nil where the thread has to end; the next broadcast begins another.
    def next_batch
      @mutex.synchronize do
        @changed.wait(@mutex) while @waiting.empty? && !@is_retired
        return @thread = nil if @waiting.empty?

        bytes = 0
        @waiting.first(Client::BROADCASTS_IN_A_CALL).take_while.with_index { |one, index| (bytes += one.bytes) <= CALL_BYTES || index.zero? }
      end
    end

    # Sends the oldest ones. Answers the error that another attempt may mend.
    def attempt(batch)
      @client.broadcast(batch.map(&:fields), attempts: 1)
      settle(batch.size)
      nil
    rescue StandardError => error
      return error if error.is_a?(Passing)

      # One that the server refuses is refused with its call: it is looked for, so that it keeps no other back.
      return settle(batch.size, error) if batch.one? || HOPELESS.any? { |kind| error.is_a?(kind) }

      batch.each_slice((batch.size + 1) / 2) do |half|
        failure = attempt(half)
        return failure if failure
      end
      nil
    end

    def note(failure)
      @mutex.synchronize do
        @failure = failure
        @changed.broadcast
      end
    end

    # All have as long, so the oldest are the first to be late.
    def lose_late(failure)
      late = @mutex.synchronize { @waiting.take_while { |one| one.deadline < @clock.call }.size }
      settle(late, failure) if late.positive?
    end

    # Takes so many of the oldest out; with an error they are lost, which is told before whoever waits for them goes on.
    def settle(count, error = nil)
      tell_loss(count, error) if error
      @mutex.synchronize do
        @bytes -= @waiting.shift(count).sum(&:bytes)
        @settled_at = monotonic
        @changed.broadcast
      end
      nil
    end

    def tell_loss(count, error)
      raise BroadcastsLost, "#{count} broadcasts were lost: #{error.message}", cause: error
    rescue BroadcastsLost => lost
      say lost.message
      report(lost)
    end

    # A subscriber that fails ends no thread which others' broadcasts need.
    def report(lost)
      ::Rails.error.report(lost, handled: true) if defined?(::Rails.error)
    rescue StandardError => error
      say "Rails.error: #{error.message}"
    end

    def say(text)
      defined?(::Rails.logger) && ::Rails.logger ? ::Rails.logger.error("Campanile: #{text}") : warn("Campanile: #{text}")
    end
  end
end
