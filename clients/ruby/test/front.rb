# Stands before the real server and does, with one connection's requests after another, what it is told to: `:pass`, `:refuse` with a
# status and a code, or with a `:page` as a proxy does, `:lose` the answer after the server has done its work, `:drop` the request, `:silent`, `:garble` the answer,
# `:drip` one in parts. What comes after the list passes.
class Front
  attr_reader :requests, :connections

  def initialize(*orders, retry_after: nil)
    @orders, @retry_after = orders, retry_after
    @requests, @sockets, @connections = [], [], 0
    @server = TCPServer.new("127.0.0.1", 0)
    @thread = Thread.new { loop { serve(@server.accept) } }
    @thread.report_on_exception = false
  end

  # An order before those that are left.
  def next_is(order, status = nil) = @orders.unshift([order, status])

  def url = "http://127.0.0.1:#{@server.addr[1]}"

  # Ends the connections that it has, as a server does that starts again.
  def leave = @sockets.each(&:shutdown)

  def close
    @thread.kill
    @server.close
  end

  def self.open(*orders, **options)
    front = new(*orders, **options)
    yield front
  ensure
    front&.close
  end

  private

  def serve(socket)
    @connections += 1
    @sockets << socket
    Thread.new do
      while (request = read(socket))
        @requests << request
        order, *more = @orders.shift
        break unless carry_out(order || :pass, more, request, socket)
      end
      socket.close
    end
  end

  # Whether the connection goes on.
  def carry_out(order, more, request, socket)
    case order
    when :pass then socket.write(answer(request))
    when :refuse then socket.write(refusal(*more))
    when :page then socket.write(page(*more))
    when :garble then socket.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"no")
    when :silent then sleep
    when :drip then drip(socket)
    when :lose then answer(request) && (return false)
    when :drop then return false
    end
    true
  end

  # Part after part of an answer that never ends, until nobody reads.
  def drip(socket)
    socket.write("HTTP/1.1 200 OK\r\n")
    loop do
      socket.write("X-Part: 1\r\n")
      sleep 0.05
    end
  rescue SystemCallError
    false
  end

  # The head and the body, as they came.
  def read(socket)
    head = socket.gets("\r\n\r\n") or return nil
    head + socket.read(head[/^content-length: (\d+)/i, 1].to_i)
  end

  def answer(request)
    TCPSocket.open("127.0.0.1", URI(World.url).port) do |server|
      server.write(request.sub(/^connection: .*\r\n/i, "").sub("\r\n", "\r\nConnection: close\r\n"))
      server.read.sub(/^connection: close\r\n/i, "")
    end
  end

  def refusal(status, code = { 503 => "unavailable", 500 => "internal_error", 409 => "idempotency_conflict" }[status])
    body = JSON.generate(code: code)
    "HTTP/1.1 #{status} No\r\nContent-Type: application/problem+json\r\n#{@retry_after && "Retry-After: #{@retry_after}\r\n"}" \
      "Content-Length: #{body.bytesize}\r\n\r\n#{body}"
  end
  def page(status, body) = "HTTP/1.1 #{status} No\r\nContent-Type: text/html\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}"
end
