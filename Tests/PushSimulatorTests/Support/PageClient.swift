import Foundation
import PushSimulator

/// A plain HTTP/1.1 client: one request a connection.
struct PageClient: Sendable {
    let port: Int

    struct Answer: Sendable {
        let status: Int
        let head: String
        let body: String
    }

    struct Broken: Error {}

    func get(_ path: String, host: String = "127.0.0.1") async throws -> Answer {
        try await exchange("GET", path, host: host, body: "", fields: [])
    }
    func post(
        _ path: String, _ body: String = "", _ fields: [String] = [], host: String = "127.0.0.1"
    ) async throws -> Answer {
        try await exchange("POST", path, host: host, body: body, fields: fields)
    }
    func delete(_ path: String) async throws -> Answer { try await exchange("DELETE", path, body: "", fields: []) }

    private func exchange(
        _ method: String, _ path: String, host: String = "127.0.0.1", body: String, fields: [String]
    ) async throws -> Answer {
        let lines = [
            "\(method) \(path) HTTP/1.1", "host: \(host)", "connection: close", "content-length: \(body.utf8.count)",
        ]
        return try await exchange((lines + fields).joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    /// Sends a request as it is written here, and reads until the connection ends.
    func exchange(_ request: String) async throws -> Answer {
        try await blocking { try exchangeNow(request) }
    }

    private func exchangeNow(_ request: String) throws -> Answer {
        let stream = try PageStream(port: port)
        try stream.write(request)
        let text = try stream.read { _ in false }
        guard let end = text.range(of: "\r\n\r\n"), let status = Int(text.dropFirst(9).prefix(3)) else {
            throw Broken()
        }
        return Answer(status: status, head: String(text[..<end.lowerBound]), body: String(text[end.upperBound...]))
    }
}

/// Runs what blocks on a thread of its own: Swift's tasks have only a few, and other tests need them.
func blocking<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try work() }) }
    }
}

/// A socket whose owner reads as much as it likes.
final class PageStream: Sendable {
    private let descriptor: Int32

    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(1), 0)
        // Whoever waits this long waits in vain.
        var patience = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw PageClient.Broken() }
    }

    deinit { close(descriptor) }

    func write(_ text: String) throws {
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else { throw PageClient.Broken() }
    }

    /// Returns true if there is something to read within that time.
    func isReadable(milliseconds: Int32) -> Bool {
        var one = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&one, 1, milliseconds) > 0
    }

    /// Reads until the text is enough, or the other side has ended.
    func read(until isEnough: (String) -> Bool) throws -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if isEnough(text) { return text }
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            guard count >= 0 else { throw PageClient.Broken() }
            if count == 0 { return text }
            bytes += chunk.prefix(count)
        }
    }
}
