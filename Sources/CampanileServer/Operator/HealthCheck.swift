import CampanileCore
import Glibc

/// `campanile health`: one call to a server on this machine, as a supervisor makes it. The whole exchange has a deadline, so
/// that a server that hangs is told from one that is slow.
package struct HealthCheck {
    /// A proof of readiness may wait 2 s for a lock (`/readyz`).
    package static let seconds = 5
    private static let answerBytes = 64 * 1_024

    private let host: String
    private let port: Int
    private let path: String
    /// The credential that is shown for the reasons.
    private let token: Secret?
    private let deadline: ContinuousClock.Instant

    private var address: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)\(path)" }

    /// - Parameter isReadiness: asks whether it can do its work, not only whether it answers.
    package init(_ configuration: Configuration, isReadiness: Bool, seconds: Int = HealthCheck.seconds) throws {
        guard configuration.port != 0 else {
            throw OperatorError("With port 0 the system chose the server's port: name it with --port.")
        }
        host = configuration.host
        port = configuration.port
        path = isReadiness ? "/readyz" : "/healthz"
        token = isReadiness ? configuration.metrics.token : nil
        deadline = .now + .seconds(seconds)
    }

    /// - Returns: a sentence for people, if all is well.
    package func run() throws -> String {
        let socket = try connection()
        defer { close(socket) }
        var fields = "Host: localhost\r\nUser-Agent: campanile-health\r\nConnection: close\r\n"
        if let token { fields += "Authorization: Bearer \(token.exposed)\r\n" }
        try send("GET \(path) HTTP/1.1\r\n\(fields)\r\n", on: socket)
        let answer = try received(on: socket)
        let words = answer.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard words.count >= 2, words[0].starts(with: "HTTP/1.".utf8), let status = Int(String(decoding: words[1], as: UTF8.self))
        else { throw OperatorError("\(address) didn't answer as an HTTP server does.") }
        guard status == 200 else {
            throw OperatorError("\(address) answered \(status).\(reasons(in: answer))")
        }
        return "\(address) answered 200."
    }

    /// The reasons of `/readyz`, or where to find them.
    private func reasons(in answer: [UInt8]) -> String {
        let text = String(decoding: answer, as: UTF8.self)
        guard let body = text.firstRange(of: "\r\n\r\n"),
            let state = try? JSONValue(parsing: Array(text[body.upperBound...].utf8))
        else { return "" }
        if case .array(let reasons)? = state["reasons"] {
            let sentences = reasons.compactMap { reason in
                if case .string(let sentence) = reason { sentence } else { nil }
            }
            return sentences.map { " " + $0 }.joined()
        }
        guard case .integer(let count)? = state["reason_count"] else { return "" }
        let number = count == 1 ? "1 reason" : "\(count) reasons"
        return token == nil
            ? " It has \(number): see its log, or set metrics.token to see \(count == 1 ? "it" : "them") here."
            : " It has \(number): see its log. It doesn't know this configuration's metrics.token."
    }

    /// Connects to the server. 0.0.0.0 and :: mean all addresses for a listener and this machine for a client.
    private func connection() throws -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        guard code == 0, let first = list else {
            throw OperatorError("The host \(host) is unknown: \(String(cString: gai_strerror(code))).")
        }
        defer { freeaddrinfo(list) }
        let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(first.pointee.ai_family, flags, 0)
        guard descriptor >= 0 else { throw unreachable(errno) }
        do {
            if connect(descriptor, first.pointee.ai_addr, first.pointee.ai_addrlen) != 0 {
                guard errno == EINPROGRESS else { throw unreachable(errno) }
                try wait(for: POLLOUT, on: descriptor)
                var error: Int32 = 0
                var size = socklen_t(MemoryLayout<Int32>.size)
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size)
                guard error == 0 else { throw unreachable(error) }
            }
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    private func send(_ text: String, on socket: Int32) throws {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            try wait(for: POLLOUT, on: socket)
            let count = rest.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno != EAGAIN, errno != EINTR { throw unreachable(errno) }
            rest = rest.dropFirst(max(0, count))
        }
    }

    /// The answer to its end; what comes after 64 KiB isn't read.
    private func received(on socket: Int32) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < HealthCheck.answerBytes {
            try wait(for: POLLIN, on: socket)
            let count = recv(socket, &chunk, chunk.count, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { continue }
            guard count >= 0 else { throw unreachable(errno) }
            if count == 0 { break }
            bytes += chunk.prefix(count)
        }
        return bytes
    }

    private func wait(for event: Int32, on socket: Int32) throws {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { throw OperatorError("\(address) didn't answer in time.") }
            var entry = pollfd(fd: socket, events: Int16(event), revents: 0)
            let milliseconds = left.components.seconds * 1_000 + left.components.attoseconds / 1_000_000_000_000_000
            if poll(&entry, 1, Int32(milliseconds) + 1) > 0 { return }
        }
    }

    private func unreachable(_ code: Int32) -> OperatorError {
        OperatorError("\(address) can't be reached: \(String(cString: strerror(code))).")
    }
}
