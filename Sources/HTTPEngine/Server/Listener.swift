import CMicroHTTPD
import Glibc
import SystemSupport

/// The listening socket and the thread that accepts.
///
/// The engine accepts itself and gives the library each connection, because the library's own way to stop accepting may
/// abort the process: see `MicroHTTPD075`. It also spreads connections evenly over the workers, and serves the last
/// ones in the kernel's queue before the socket closes.
///
/// An inherited socket shares its open file with the supervisor's. So the listener closes it and never shuts it down,
/// and in the end leaves its queue for the next process.
final class Listener: Sendable {
    /// As requested; an inherited socket's in numbers.
    let host: String
    let port: UInt16
    private let descriptor: Int32
    private let isInherited: Bool

    /// - Parameters:
    ///   - host: an address or a name; the first address it resolves to is used.
    ///   - port: 0 lets the system choose.
    init(host: String, port: UInt16, backlog: Int32) throws(SystemError) {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &list)
        guard code == 0, let first = list else {
            throw SystemError("The host \(host) can't be resolved: \(String(cString: gai_strerror(code))).")
        }
        defer { freeaddrinfo(list) }
        let flags = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(first.pointee.ai_family, flags, first.pointee.ai_protocol)
        guard descriptor >= 0, SocketOption.set(SO_REUSEADDR, to: 1, of: descriptor),
            bind(descriptor, first.pointee.ai_addr, first.pointee.ai_addrlen) == 0,
            listen(descriptor, backlog) == 0
        else {
            let code = errno
            if descriptor >= 0 { _ = close(descriptor) }
            throw SystemError("Can't listen on \(host), port \(port): \(String(cString: strerror(code))).")
        }
        self.host = host
        self.descriptor = descriptor
        self.port = Self.address(of: descriptor).port
        isInherited = false
    }

    /// Takes over a listening TCP socket, and closes it in the end.
    init(inherited descriptor: Int32) throws(SystemError) {
        func failure(_ reason: StaticString) -> SystemError { SystemError("The inherited descriptor \(descriptor) \(reason).") }
        guard let type = Self.option(SO_TYPE, of: descriptor) else {
            throw failure(errno == EBADF ? "isn't open" : "isn't a socket")
        }
        let family = Self.option(SO_DOMAIN, of: descriptor)
        guard type == Int32(SOCK_STREAM.rawValue), family == AF_INET || family == AF_INET6 else {
            throw failure("isn't a TCP socket: ListenStream= must be an address and a port")
        }
        guard Self.option(SO_ACCEPTCONN, of: descriptor) == 1 else {
            throw failure("is a socket that doesn't listen: the socket unit must say Accept=no")
        }
        // The flag belongs to the open file, so the supervisor's descriptor gets it too. Without it, a connection that
        // another process takes between `poll` and `accept` would block the accepting thread, and so the stop.
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        self.descriptor = descriptor
        (host, port) = Self.address(of: descriptor)
        isInherited = true
    }

    private static func option(_ name: Int32, of descriptor: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
    }

    /// Returns the host and the port on which a socket listens.
    private static func address(of descriptor: Int32) -> (host: String, port: UInt16) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let code = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let code = getsockname(descriptor, address, &length)
                return code == 0 ? getnameinfo(address, length, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST) : code
            }
        }
        guard code == 0 else { return ("", 0) }
        let host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // The port is at the same place in IPv4 and IPv6 addresses.
        return (host, withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) })
    }

    /// Accepts until the signal is given. Then accepts the connections still in the kernel's queue, unless the socket
    /// was inherited, and closes the socket.
    /// - Parameters:
    ///   - hasRoom: whether one more connection may be open. If not, clients wait in the kernel's queue.
    ///   - add: takes over an accepted socket.
    func run(until signal: StopSignal, hasRoom: () -> Bool, add: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Void) {
        while true {
            let room = hasRoom()
            // Without room the wait is short, because nothing wakes it when a connection closes.
            let stopped = signal.wait(milliseconds: room ? -1 : 20, alsoFor: room ? descriptor : -1)
            if stopped, isInherited { break }
            while hasRoom(), acceptOne(add) {}
            if stopped { break }
        }
        _ = close(descriptor)
    }

    /// Closes the socket of a listener that never ran.
    func abandon() { _ = close(descriptor) }

    /// - Returns: false if no connection waits or the system has no descriptor left.
    private func acceptOne(_ add: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Void) -> Bool {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &address) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let flags = Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
                let socket = cmhd_accept(descriptor, address, &length, flags)
                guard socket >= 0 else { return giveUp(errno) }
                add(socket, address, length)
                return true
            }
        }
    }

    /// - Returns: whether to accept again at once, because the failed client is gone and others may wait.
    private func giveUp(_ code: Int32) -> Bool {
        switch code {
        case ECONNABORTED, EINTR, EPROTO:
            return true
        case EAGAIN:
            return false
        default:
            // No descriptor or no memory is left, or the supervisor has shut the socket down. The socket stays
            // readable, so without a pause this would spin until a descriptor is closed.
            _ = poll(nil, 0, 20)
            return false
        }
    }
}
