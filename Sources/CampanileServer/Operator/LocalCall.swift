import CampanileCore
import Glibc

/// One exchange with a server on this machine, over a connection of its own, with a deadline.
package struct LocalCall: Sendable {
    let host: String
    let port: Int
    /// The path that the sentences about a failure name.
    let path: String
    private let deadline: ContinuousClock.Instant

    var address: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)" }

    package init(host: String, port: Int, path: String, seconds: Int) {
        self.host = host
        self.port = port
        self.path = path
        deadline = .now + .seconds(seconds)
    }

    /// Sends a request that asks for the connection's end, and returns the answer's bytes; what comes after a limit isn't read. Blocks.
    /// - Throws: `OperatorError` when the server can't be reached, or doesn't answer in time.
    package func answer(to request: String, mostBytes: Int) throws -> [UInt8] {
        let socket = try connection()
        defer { close(socket) }
        try send(request, on: socket)
        return try received(on: socket, mostBytes)
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

    private func received(on socket: Int32, _ mostBytes: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < mostBytes {
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
            guard left > .zero else { throw OperatorError("\(address)\(path) didn't answer in time.") }
            var entry = pollfd(fd: socket, events: Int16(event), revents: 0)
            let milliseconds = left.components.seconds * 1_000 + left.components.attoseconds / 1_000_000_000_000_000
            if poll(&entry, 1, Int32(milliseconds) + 1) > 0 { return }
        }
    }

    private func unreachable(_ code: Int32) -> OperatorError {
        OperatorError("\(address)\(path) can't be reached: \(String(cString: strerror(code))).")
    }
}
