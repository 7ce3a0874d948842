import CampanileCore
import Glibc
import Synchronization

/// An EventSource on a real socket: reads the head, then event after event.
final class EventSourceClient: Sendable {
    struct Broken: Error { let reason: String }

    struct Event: Sendable, Equatable {
        var id = ""
        var name = "message"
        var data = ""

        var json: JSONValue? { try? JSONValue(parsing: Array(data.utf8)) }
        var count: Int64? { json?["count"]?.int }
    }

    let status: Int
    let head: String
    private let socket: ClientSocket
    private let events: AsyncThrowingStream<Event, any Error>
    /// The times that clients are told to wait, in the order in which they are told.
    let retries: Recorder<Int>

    /// - Throws: `Broken` when there is no answer.
    init(port: UInt16, _ target: String, headers: [String: String] = [:], receiveBuffer: Int32? = nil) async throws {
        let request =
            "GET \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n"
            + headers.map { "\($0.key): \($0.value)\r\n" }.joined() + "\r\n"
        let socket = try ClientSocket(port: port, receiveBuffer: receiveBuffer)
        self.socket = socket
        let retries = Recorder<Int>()
        self.retries = retries
        let (events, continuation) = AsyncThrowingStream.makeStream(of: Event.self)
        self.events = events
        let head = try await withCheckedThrowingContinuation { (answered: CheckedContinuation<String, any Error>) in
            Threads.start {
                var lines = LineReader(socket: socket)
                guard socket.send(request), let head = lines.head() else {
                    socket.close()
                    answered.resume(throwing: Broken(reason: "no answer"))
                    continuation.finish()
                    return
                }
                answered.resume(returning: head)
                EventSourceClient.read(&lines, retries, continuation)
            }
        }
        self.head = head
        status = Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0
    }

    deinit { socket.hangUp() }

    /// Hangs up.
    func close() { socket.hangUp() }

    /// The next event; nil when the stream has ended.
    func next() async throws -> Event? {
        for try await event in events { return event }
        return nil
    }

    /// The next events, as many as asked for.
    func next(_ count: Int) async throws -> [Event] {
        var found: [Event] = []
        while found.count < count, let event = try await next() { found.append(event) }
        return found
    }

    private static func read(
        _ lines: inout LineReader, _ retries: Recorder<Int>, _ continuation: AsyncThrowingStream<Event, any Error>.Continuation
    ) {
        var event = Event()
        var hasData = false
        while let line = lines.next() {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let value = parts.count == 2 ? String(parts[1].drop { $0 == " " }) : ""
            switch parts[0] {
            case "" where line.isEmpty:
                if hasData { continuation.yield(event) }
                event = Event()
                hasData = false
            case "id": event.id = value
            case "event": event.name = value
            case "data":
                event.data += (hasData ? "\n" : "") + value
                hasData = true
            case "retry": retries.append(Int(value) ?? -1)
            default: break
            }
        }
        lines.socket.close()
        continuation.finish()
    }
}

/// A connection that a thread reads and everybody may end.
final class ClientSocket: Sendable {
    let descriptor: Int32
    private let isOpen = Mutex(true)

    init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        let socket = Glibc.socket(AF_INET, Int32(1), 0)
        if var size = receiveBuffer { setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, 4) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw EventSourceClient.Broken(reason: "no connection") }
        descriptor = socket
    }

    func send(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return write(descriptor, bytes, bytes.count) == bytes.count
    }

    /// Whoever reads sees the end.
    func hangUp() {
        isOpen.withLock { if $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
    }

    func close() {
        isOpen.withLock { isOpen in
            if isOpen { _ = Glibc.close(descriptor) }
            isOpen = false
        }
    }
}

/// The values that a thread notes for a test.
final class Recorder<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    var all: [Value] { values.withLock { $0 } }
    func append(_ value: Value) { values.withLock { $0.append(value) } }
}

/// Lines of a socket, ended by LF or CRLF.
private struct LineReader {
    let socket: ClientSocket
    private var buffer: [UInt8] = []

    init(socket: ClientSocket) { self.socket = socket }

    mutating func next() -> String? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                var line = buffer[..<end]
                if line.last == 13 { line = line.dropLast() }
                let text = String(decoding: line, as: UTF8.self)
                buffer.removeFirst(end + 1)
                return text
            }
            var chunk = [UInt8](repeating: 0, count: 4_096)
            let count = recv(socket.descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { return nil }
            buffer += chunk[..<count]
        }
    }

    /// The lines up to the empty one.
    mutating func head() -> String? {
        var lines: [String] = []
        while let line = next() {
            if line.isEmpty { return lines.joined(separator: "\n") }
            lines.append(line)
        }
        return nil
    }
}

/// Threads of their own for what blocks.
enum Threads {
    static func start(_ work: @escaping @Sendable () -> Void) {
        final class Box: Sendable {
            let work: @Sendable () -> Void
            init(_ work: @escaping @Sendable () -> Void) { self.work = work }
        }
        var thread: pthread_t = 0
        let box = Unmanaged.passRetained(Box(work))
        pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<Box>.fromOpaque(context).takeRetainedValue().work() }
                return nil
            }, box.toOpaque())
        pthread_detach(thread)
    }
}
