import Glibc
import HTTPEngine
import Synchronization
import TestSupport
import Testing

/// A clock that stands, and that can hold the daemon's thread when it looks.
private final class HoldingClock: Sendable {
    private let daemon = Atomic<UInt>(0)
    private let isHolding = Atomic<Bool>(false)
    private let isHeld = Atomic<Bool>(false)

    var now: UInt64 {
        if UInt(pthread_self()) == daemon.load(ordering: .sequentiallyConsistent) {
            blockUntil {
                guard isHolding.load(ordering: .sequentiallyConsistent) else { return true }
                isHeld.store(true, ordering: .sequentiallyConsistent)
                return false
            }
        }
        return 1_000_000_000_000
    }

    /// To be called on the daemon's thread.
    func meetDaemon() { daemon.store(UInt(pthread_self()), ordering: .sequentiallyConsistent) }
    func hold() { isHolding.store(true, ordering: .sequentiallyConsistent) }
    func waitUntilHeld() { blockUntil { isHeld.load(ordering: .sequentiallyConsistent) } }
    func letGo() { isHolding.store(false, ordering: .sequentiallyConsistent) }
}

@Suite("Draining: who is owed an answer", .serialized)
struct DrainTests {
    private static let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    private static let long: UInt64 = 20_000_000_000

    @Test("the first request of who was accepted before is waited for, and answered with Connection: close")
    func newcomer() async throws {
        var limits = Limits()
        limits.firstRequestGrace = Self.long
        let outcome = try await withServer(limits: limits) { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            server.waitUntil { $0.connectionsOpen == 1 }
            let early = server.drain(within: 0)
            client.send(Self.request)
            return (early, client.answer(), server.drain(within: Self.long))
        }
        let (early, answer, late) = outcome.result
        #expect(!early, "a connection is owed the answer to its first request")
        #expect(answer?.status == 200 && answer?.closes == true)
        #expect(late)
    }

    @Test("who goes on sending a body that was refused is not waited for")
    func refused() async throws {
        let journal = Journal()
        let outcome = try await withServer(clock: HandClock(), journal: journal) { _ in
            .now(Response(status: 200))
        } _: { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc")
                let answers = RawClient.answers(in: client.readToEnd())
                let (open, reported) = (server.statistics.connectionsOpen, journal.all.map(\.status))
                return (answers.map(\.status), open, reported, server.drain(within: Self.long))
            }
        }
        #expect(outcome.result == ([413], 1, [413], true))
        #expect(outcome.statistics.isClean)
        #expect(journal.all.map(\.status) == [413], "it is reported once, when it is refused")
    }

    @Test("who was accepted and sends nothing is not waited for beyond the grace")
    func silent() async throws {
        var limits = Limits()
        limits.firstRequestGrace = 0
        let outcome = try await withServer(limits: limits) { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            server.waitUntil { $0.connectionsOpen == 1 }
            return (server.drain(within: Self.long), client.isClosedByServer())
        }
        #expect(outcome.result.0)
        #expect(outcome.result.1)
    }

    @Test("idle connections end, but a request that has arrived and that nobody has read yet is answered first")
    func unread() async throws {
        let clock = HoldingClock()
        var options = HTTPServerOptions(threads: 1)
        options.clock = { clock.now }
        let server = HTTPServer(
            options: options,
            handler: { _ in
                clock.meetDaemon()
                return .now(Response(status: 200))
            }, finish: finished)
        let port = try server.start()
        let (answer, isClosed) = try await offThePool {
            let idle = try RawClient(port: port)
            let late = try RawClient(port: port)
            for client in [idle, late] {
                client.send(Self.request)
                _ = client.answer()
            }
            server.waitUntil { $0.requestsEnded == 2 }
            clock.hold()
            late.send(Self.request)
            clock.waitUntilHeld()
            // The daemon's only thread doesn't get on: as far as the server knows, both connections wait for a request.
            _ = server.drain(within: 0)
            clock.letGo()
            return (late.answer(), idle.isClosedByServer())
        }
        #expect(answer?.status == 200 && answer?.closes == true)
        #expect(isClosed, "without a stop")
        #expect(try await offThePool { server.drain(within: Self.long) })
        try await offThePool { server.stop() }
        #expect(server.statistics.isClean)
    }

    @Test("whoever waits in the queue of the server's own socket is accepted and answered, as no other server comes")
    func queue() async throws {
        let outcome = try await withServer { _ in
            .now(Response(status: 200))
        } clients: { server in
            let clients = try (0..<20).map { _ in try RawClient(port: server.port) }
            clients.forEach { $0.send(Self.request) }
            return (server.drain(within: Self.long), clients.map { $0.answer()?.status })
        }
        #expect(outcome.result.0)
        #expect(outcome.result.1 == Array(repeating: 200, count: 20))
    }
}
