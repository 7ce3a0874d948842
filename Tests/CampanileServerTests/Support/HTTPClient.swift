import CampanileCore
import Glibc

/// A small HTTP/1.1 client for tests: one connection a request, blocking, on a thread of its own.
struct HTTPClient: Sendable {
    struct Broken: Error { let reason: String }

    struct Answer: Sendable {
        let status: Int
        let headers: [(name: String, value: String)]
        let body: [UInt8]

        func header(_ name: String) -> String? { headers.first { $0.name == name.lowercased() }?.value }

        var json: JSONValue {
            get throws { try JSONValue(parsing: body) }
        }

        /// The stable code of a problem.
        var code: String? { (try? json)?["code"]?.string }
        var errorFields: [String] {
            guard case .array(let errors)? = (try? json)?["errors"] else { return [] }
            return errors.compactMap { $0["field"]?.string }
        }
    }

    let port: UInt16

    func send(
        _ method: String, _ target: String, as credential: String? = nil, headers: [String: String] = [:],
        body: String? = nil
    ) async throws -> Answer {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        if let credential { head += "Authorization: \(credential)\r\n" }
        var headers = headers
        if let body {
            head += "Content-Length: \(body.utf8.count)\r\n"
            if headers["Content-Type"] == nil { headers["Content-Type"] = "application/json" }
        }
        for (name, value) in headers where !value.isEmpty { head += "\(name): \(value)\r\n" }
        let bytes = Array((head + "\r\n" + (body ?? "")).utf8)
        return try await withCheckedThrowingContinuation { continuation in
            let exchange = Exchange(port: port, request: bytes) { continuation.resume(with: $0) }
            exchange.start()
        }
    }

    func get(_ target: String, as credential: String? = nil, headers: [String: String] = [:]) async throws -> Answer {
        try await send("GET", target, as: credential, headers: headers)
    }

    func post(
        _ target: String, _ body: String, as credential: String? = nil, headers: [String: String] = [:]
    ) async throws -> Answer {
        try await send("POST", target, as: credential, headers: headers, body: body)
    }

    func patch(_ target: String, _ body: String, as credential: String) async throws -> Answer {
        try await send("PATCH", target, as: credential, body: body)
    }

    func delete(_ target: String, as credential: String) async throws -> Answer {
        try await send("DELETE", target, as: credential)
    }
}

extension JSONValue {
    var string: String? { if case .string(let string) = self { string } else { nil } }
    var int: Int64? { if case .integer(let integer) = self { integer } else { nil } }
    var array: [JSONValue] { if case .array(let values) = self { values } else { [] } }
}

/// One request and its answer, on a thread.
private final class Exchange: Sendable {
    private let port: UInt16
    private let request: [UInt8]
    private let done: @Sendable (Result<HTTPClient.Answer, any Error>) -> Void

    init(port: UInt16, request: [UInt8], done: @escaping @Sendable (Result<HTTPClient.Answer, any Error>) -> Void) {
        self.port = port
        self.request = request
        self.done = done
    }

    func start() {
        var thread = pthread_t()
        let this = Unmanaged.passRetained(self).toOpaque()
        let code = pthread_create(
            &thread, nil,
            { pointer in
                guard let pointer else { return nil }
                let exchange = Unmanaged<Exchange>.fromOpaque(pointer).takeRetainedValue()
                exchange.done(Result { try exchange.run() })
                return nil
            }, this)
        precondition(code == 0)
        pthread_detach(thread)
    }

    private func run() throws -> HTTPClient.Answer {
        let socket = socket(AF_INET, Int32(1), 0)
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw HTTPClient.Broken(reason: "connect: \(errno)") }
        guard write(socket, request, request.count) == request.count else { throw HTTPClient.Broken(reason: "write") }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(socket, &chunk, chunk.count)
            guard count > 0 else { break }
            bytes += chunk.prefix(count)
        }
        return try Exchange.parse(bytes)
    }

    private static func parse(_ bytes: [UInt8]) throws -> HTTPClient.Answer {
        let end: [UInt8] = [13, 10, 13, 10]
        guard let split = (0..<max(0, bytes.count - 3)).first(where: { Array(bytes[$0..<$0 + 4]) == end }) else {
            throw HTTPClient.Broken(reason: "no head in \(bytes.count) bytes")
        }
        let lines = String(decoding: bytes[..<split], as: UTF8.self).split(separator: "\r\n")
        guard let first = lines.first, let status = Int(first.split(separator: " ")[1]) else {
            throw HTTPClient.Broken(reason: "no status")
        }
        let headers = lines.dropFirst().map { line -> (name: String, value: String) in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (parts[0].lowercased(), parts.count > 1 ? String(parts[1].drop { $0 == " " }) : "")
        }
        return HTTPClient.Answer(status: status, headers: headers, body: Array(bytes[(split + 4)...]))
    }
}
