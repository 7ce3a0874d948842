module Campanile
  # Broadcasts were lost, because the server didn't take them for 30 s, or refused them. `cause` is what the last attempt raised.
  class BroadcastsLost < Error; end

  # Sends a program's broadcasts in their order, from a thread of its own, so that no request waits for them. Each has an id, under which the
  # server takes it once, however often it is sent. What waits is lost with the process.
  class Broadcaster
    # The broadcasts and their bytes that may wait; one more raises.
    MOST = 1_000
    MOST_BYTES = 16 * 1_024 * 1_024
    # The bytes of one, and of a call's texts together: JSON may write a character in six, and a call has 256 KiB.
    BYTES = 64 * 1_024
    CALL_BYTES = 160 * 1_024
    # Seconds for which one is sent again.
    SECONDS = 30
    # Seconds between two attempts, at first and at most.
    WAITS = (0.1..1.0)
    # Seconds that a program which ends gives to what waits.
    LAST_SECONDS = 5

    Waiting = Struct.new(:stream, :data, :id, :deadline) do
      def bytes = stream.bytesize + data.bytesize
      def fields = { stream: stream, data: data, id: id }
    end

    # `clock` gives seconds that only grow, and `sleep` waits between two attempts.
    def initialize(client, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }, sleep: Kernel.method(:sleep))
      @clock, @sleep = clock, sleep
      @client, @mutex, @changed = client, Mutex.new, ConditionVariable.new
      begin_anew
      at_exit { flush(LAST_SECONDS) if @process == Process.pid }
    end

    # Puts a text on its way to the pages that listen to a stream. Raises BroadcastsLost if earlier ones were lost, once, and if too many wait.
    def broadcast(stream, data)
      one = Waiting.new(stream.to_s, data.to_s, SecureRandom.uuid, now + SECONDS)
      raise ArgumentError, "A broadcast has #{BYTES} bytes at most, and this one #{one.data.bytesize}." if one.data.bytesize > BYTES

      @mutex.synchronize do
        begin_anew unless @process == Process.pid
        tell_loss
        raise BroadcastsLost, "#{@waiting.size} broadcasts wait for #{@client.configuration.url}: this one is lost." unless room?(one)

        @waiting << one
        @bytes += one.bytes
        @thread = Thread.new { send_all } unless @thread&.alive?
        @changed.broadcast
      end
    end

    # Waits until everything is sent or lost, for so many seconds at most. Answers whether it is.
    def flush(seconds)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      left = -> { deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      @mutex.synchronize do
        @changed.wait(@mutex, left.call) while @process == Process.pid && @waiting.any? && left.call.positive?
        @waiting.empty?
      end
    end

    private

    # Also after a fork: what waits is the parent's to send.
    def begin_anew
      @waiting, @bytes, @lost, @thread, @process = [], 0, nil, nil, Process.pid
    end

    def now = @clock.call

    def room?(one) = @waiting.size < MOST && @bytes + one.bytes <= MOST_BYTES

    def tell_loss
      lost, @lost = @lost, nil
      return unless lost

      count, error = lost
      raise BroadcastsLost, "#{count} broadcasts were lost: #{error.message}", cause: error
    end

    def send_all
      wait = WAITS.begin
      loop do
        batch = @mutex.synchronize do
          @changed.wait(@mutex) while @waiting.empty?
          next_batch
        end
        if (error = attempt(batch))
          @sleep.call(wait * rand(0.5..1.0))
          wait = [wait * 2, WAITS.end].min
          lose(error) { |one| one.deadline < now }
        else
          wait = WAITS.begin
        end
      end
    end

    def next_batch
      bytes = 0
      @waiting.first(Client::BROADCASTS_IN_A_CALL).take_while.with_index { |one, index| (bytes += one.bytes) <= CALL_BYTES || index.zero? }
    end

    # Answers the error that another attempt may mend.
    def attempt(batch)
      @client.broadcast(batch.map(&:fields), attempts: 1)
      forget(batch)
      nil
    rescue Passing => error
      error
    rescue StandardError => error
      # One that the server refuses is refused with its call: alone it keeps no other back.
      return lose(error) { |one| one == batch[0] } if batch.one?

      batch.each do |one|
        passing = attempt([one])
        return passing if passing
      end
      nil
    end

    def forget(batch)
      @mutex.synchronize do
        @waiting -= batch
        @bytes = @waiting.sum(&:bytes)
        @changed.broadcast
      end
    end

    def lose(error, &which)
      lost = @mutex.synchronize { @waiting.select(&which) }
      return if lost.empty?

      forget(lost)
      @mutex.synchronize { @lost = [(@lost ? @lost[0] : 0) + lost.size, error] }
      warn "Campanile: #{lost.size} broadcasts were lost: #{error.message}"
      nil
    end
  end
end
