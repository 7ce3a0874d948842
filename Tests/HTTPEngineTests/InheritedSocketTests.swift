import Glibc
import SystemSupport
import TestSupport
import Testing

@testable import HTTPEngine

/// A socket of a supervisor's, which keeps its own descriptor and gives the server another one of the same open file.
private final class Supervisor: Sendable {
    let descriptor: Int32
    let port: UInt16

    init(_ family: Int32 = AF_INET, type: __socket_type = SOCK_STREAM, listens: Bool = true) throws {
        descriptor = socket(family, Int32(type.rawValue), 0)
        guard descriptor >= 0 else { throw RawClient.Broken(code: errno) }
        var storage = sockaddr_storage()
        storage.ss_family = sa_family_t(family)
        var length = socklen_t(
            family == AF_INET
                ? MemoryLayout<sockaddr_in>.size
                : family == AF_INET6 ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sa_family_t>.size)
        let own = descriptor
        let code = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let code = bind(own, address, length)
                return code == 0 ? getsockname(own, address, &length) : code
            }
        }
        guard code == 0, !listens || listen(own, 16) == 0 else { throw RawClient.Broken(code: errno) }
        port = withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) }
    }

    deinit { close(descriptor) }

    func handDown() -> Int32 { fcntl(descriptor, F_DUPFD, 3) }

    func server(_ name: StaticString = "one") -> HTTPServer {
        HTTPServer(
            options: HTTPServerOptions(host: "no such host", port: 1, inherited: handDown(), threads: 1),
            handler: { _ in .now(Response(status: 200, body: .constant(name))) }, finish: finished)
    }
}

@Suite("An inherited socket", .serialized)
struct InheritedSocketTests {
    private static let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    @Test(
        "a server on it says its address, whatever host and port it was given",
        arguments: [
            (AF_INET, "0.0.0.0"), (AF_INET6, "::"),
        ])
    func address(family: Int32, host: String) async throws {
        let supervisor = try Supervisor(family)
        let (answer, server) = try await offThePool {
            let server = supervisor.server()
            try server.start()
            let client = try RawClient(port: supervisor.port)
            client.send(Self.request)
            return (client.answer(), server)
        }
        #expect(answer?.body == "one")
        #expect(server.host == host)
        #expect(server.port == supervisor.port)
        try await offThePool { server.stop() }
    }

    @Test("its queue is left as it is when the server stops; that of a server's own socket is emptied, as nobody comes after")
    func queue() throws {
        let supervisor = try Supervisor()
        let listeners = [
            try HTTPEngine.Listener(inherited: supervisor.handDown()),
            try HTTPEngine.Listener(host: "127.0.0.1", port: 0, backlog: 16),
        ]
        let accepted = try listeners.map { listener in
            let clients = try (0..<3).map { _ in try RawClient(port: listener.port) }
            let signal = StopSignal()
            signal.give()
            var sockets: [Int32] = []
            listener.run(until: signal, hasRoom: { true }, add: { socket, _, _ in sockets.append(socket) })
            for socket in sockets { close(socket) }
            return withExtendedLifetime(clients) { sockets.count }
        }
        #expect(accepted == [0, 3])
    }

    @Test("who comes between two servers is refused by nobody and answered by the second")
    func successor() async throws {
        let supervisor = try Supervisor()
        let answers = try await offThePool {
            let first = supervisor.server("one")
            try first.start()
            first.stopAccepting()
            // Both before the first has ended: it may neither take them with it nor shut down the socket that they wait in.
            let waiting = try (0..<2).map { _ in try RawClient(port: supervisor.port) }
            waiting[0].send(Self.request)
            first.stop()
            let between = try RawClient(port: supervisor.port)
            let second = supervisor.server("two")
            try second.start()
            defer { second.stop() }
            for client in [waiting[1], between] { client.send(Self.request) }
            return (waiting + [between]).map { $0.answer()?.body }
        }
        #expect(answers == ["two", "two", "two"])
    }

    @Test("it is handed on to no child, and never waited in")
    func flags() async throws {
        let supervisor = try Supervisor()
        let descriptor = supervisor.handDown()
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC == 0)
        let server = HTTPServer(
            options: HTTPServerOptions(inherited: descriptor), handler: { _ in .now(Response(status: 200)) }, finish: finished)
        try server.start()
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
        try await offThePool { server.stop() }
        #expect(fcntl(supervisor.descriptor, F_GETFD) >= 0, "the supervisor's own descriptor is its own")
    }

    @Test("what is no listening socket of TCP is refused with a sentence")
    func refused() throws {
        var ends: [Int32] = [-1, -1]
        #expect(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        let unbound = try Supervisor(listens: false)
        let datagrams = try Supervisor(type: SOCK_DGRAM, listens: false)
        let local = try Supervisor(AF_UNIX)
        let cases: [(Int32, String)] = [
            (ends[0], "isn't a socket"), (1_000_000, "isn't open"),
            (unbound.descriptor, "is a socket that doesn't listen: the socket unit must say Accept=no"),
            (datagrams.descriptor, "isn't a TCP socket: ListenStream= must be an address and a port"),
            (local.descriptor, "isn't a TCP socket: ListenStream= must be an address and a port"),
        ]
        for (descriptor, reason) in cases {
            let server = HTTPServer(
                options: HTTPServerOptions(inherited: descriptor), handler: { _ in .now(Response(status: 200)) }, finish: finished
            )
            let error = #expect(throws: SystemError.self) { try server.start() }
            #expect(error?.description == "The inherited descriptor \(descriptor) \(reason).")
        }
    }
}
