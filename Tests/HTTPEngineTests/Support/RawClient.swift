import Glibc
import HTTPEngine
import TestSupport

/// A TCP client that sends exactly the bytes it is given. It blocks: use it inside `offThePool`.
final class RawClient {
    struct Broken: Error { let code: Int32 }

    /// An answer, taken apart.
    struct Answer: Equatable {
        var status: Int
        var headers: [String: String]
        var body: String
        var closes: Bool { headers["connection"]?.lowercased().contains("close") == true }
    }

    private let descriptor: Int32
    /// Received and not yet taken.
    private var pending: [UInt8] = []

    /// - Parameter isIPv6: connects to ::1 instead of 127.0.0.1.
    init(port: UInt16, isIPv6: Bool = false) throws {
        descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Broken(code: errno) }
        // Only so that a broken server fails a test instead of hanging it; no test waits for it to pass.
        var patience = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let code = isIPv6 ? connect6(port) : connect4(port)
        // The object is complete, so its deinit closes the socket, now as later.
        guard code == 0 else { throw Broken(code: errno) }
    }

    deinit { Glibc.close(descriptor) }

    private func connect4(_ port: UInt16) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private func connect6(_ port: UInt16) -> Int32 {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        address.sin6_addr = in6addr_loopback
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
            }
        }
    }

    /// Sends everything, unless the server has hung up.
    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// Says that nothing more will be sent.
    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Hangs up with a reset, as a client that crashes does.
    func reset() {
        var linger = Glibc.linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    /// Reads some bytes. - Returns: false at the end of the stream, or after a reset.
    private func receive() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        pending += buffer[0..<count]
        return true
    }

    /// Everything until the server closes. Whenever nothing comes for a moment, the server's sweep, which runs
    /// once a second by itself, is run by hand.
    func readToEnd(sweeping server: HTTPServer) -> [UInt8] {
        var moment = timeval(tv_sec: 0, tv_usec: 5_000)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &moment, socklen_t(MemoryLayout<timeval>.size))
        var attempts = 0
        errno = 0
        while receive() || (errno == EAGAIN && attempts < 24_000) {
            if errno == EAGAIN {
                attempts += 1
                server.sweep()
            }
            errno = 0
        }
        defer { pending = [] }
        return pending
    }

    /// Everything until the server closes.
    func readToEnd() -> [UInt8] {
        while receive() {}
        defer { pending = [] }
        return pending
    }

    /// Everything until the server closes; then hangs up as well.
    func readToEndAndHangUp() -> [UInt8] {
        defer { finishSending() }
        return readToEnd()
    }

    /// Returns whether the server has closed the connection; waits for it.
    func isClosedByServer() -> Bool {
        repeat { errno = 0 } while receive()
        return pending.isEmpty && errno != EAGAIN
    }

    /// The next answer, or nil if the server closes before it is complete.
    /// - Parameter bodiless: true for an answer to HEAD.
    func answer(bodiless: Bool = false) -> Answer? {
        while true {
            if let (answer, length) = Self.parse(pending, bodiless: bodiless) {
                pending.removeFirst(length)
                if answer.status != 100 { return answer }
            } else if !receive() {
                return nil
            }
        }
    }

    /// Every complete answer in what was received.
    static func answers(in bytes: [UInt8]) -> [Answer] {
        var rest = bytes
        var answers: [Answer] = []
        while let (answer, length) = parse(rest, bodiless: false) {
            if answer.status != 100 { answers.append(answer) }
            rest.removeFirst(length)
        }
        return answers
    }

    private static func parse(_ bytes: [UInt8], bodiless: Bool) -> (Answer, Int)? {
        let text = String(decoding: bytes, as: Unicode.ASCII.self)
        guard let end = text.utf8.firstRange(of: "\r\n\r\n".utf8) else { return nil }
        let lines = text[..<end.lowerBound].split(separator: "\r\n", omittingEmptySubsequences: false)
        guard let first = lines.first, first.hasPrefix("HTTP/1."), let status = Int(first.split(separator: " ")[1]) else {
            return nil
        }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            headers[line[..<colon].lowercased()] = String(value)
        }
        let headLength = text.utf8.distance(from: text.startIndex, to: end.upperBound)
        let hasBody = !bodiless && status >= 200 && status != 204 && status != 304
        let length = hasBody ? Int(headers["content-length"] ?? "0") ?? 0 : 0
        guard bytes.count >= headLength + length else { return nil }
        let body = String(decoding: bytes[headLength..<headLength + length], as: UTF8.self)
        return (Answer(status: status, headers: headers, body: body), headLength + length)
    }
}

extension Collection where Element: Equatable {
    /// The first place where the other collection's elements stand in a row.
    func firstRange(of other: some Collection<Element>) -> Range<Index>? {
        var start = startIndex
        while start != endIndex {
            var one = start
            var two = other.startIndex
            while one != endIndex, two != other.endIndex, self[one] == other[two] {
                formIndex(after: &one)
                other.formIndex(after: &two)
            }
            if two == other.endIndex { return start..<one }
            formIndex(after: &start)
        }
        return nil
    }
}
