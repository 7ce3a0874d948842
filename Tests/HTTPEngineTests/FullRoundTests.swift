@testable import HTTPEngine
import TestSupport
import Testing

/// libmicrohttpd asks epoll for at most 128 events at once. When it gets just as many, it asks again before it looks at them,
/// and waits for as long as it would have waited in the first place: for ever, if nobody else has anything to say.
@Suite("Rounds of epoll that are full", .serialized)
struct FullRoundTests {
    @Test(
        "As many requests at once as epoll tells in one round, or in two, are answered without another's help",
        arguments: [127, 128, 129, 256])
    func together(count: Int) async throws {
        let entered = Gate()
        let held = StopSignal()
        let outcome = try await withServer(threads: 1) { request in
            if request.path == "/hold" {
                Task { await entered.wait() }
                _ = held.wait(milliseconds: -1)
            }
            return .now(Response(status: 200, body: .text(request.path)))
        } _: { server in
            let port = server.port
            // All have been answered once, so that each stands in the epoll set and has nothing left to tell.
            let all = try await offThePool {
                let all = try (0...count).map { _ in try RawClient(port: port) }
                for client in all {
                    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
                    _ = client.answer()
                }
                all[0].send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
                return Box(all)
            }
            await entered.arrivals(1)
            entered.open()
            return try await offThePool {
                // The one that is held stays open: hanging up would be one more event.
                let clients = all.value.dropFirst().enumerated()
                for (number, client) in clients { client.send("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n") }
                held.give()
                return clients.first { number, client in client.answer()?.body != "/\(number)" }?.offset
            }
        }
        #expect(outcome.result == nil, "the first that wasn't answered")
        #expect(outcome.statistics.isClean)
    }
}
