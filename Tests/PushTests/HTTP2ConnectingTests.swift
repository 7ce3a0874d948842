import CampanileCore
import NIOCore
import Testing

@testable import Push

@Suite("Connecting", .endsIfItHangs) struct HTTP2ConnectingTests {
    private static func failure(_ url: String) async throws -> HTTP2Failure? {
        let network = try PushNetwork(trust: .authorities(pem: TestAuthority.trusted.pem))
        let client = HTTP2Client(
            endpoint: try HTTP2Endpoint(url: url), limits: HTTP2Limits(), network: network, world: HandClock().world)
        let failure = await client.post().failure
        await client.stop()
        await network.shutDown()
        return failure
    }

    @Test("nobody listens: the request comes back soon, unsent, with the reason")
    func refused() async throws {
        let failure = try #require(await Self.failure("https://127.0.0.1:1"))
        #expect(failure.kind == .unsent)
        #expect(failure.reason.contains("connection refused"))
    }

    @Test("a name that doesn't exist")
    func unknownHost() async throws {
        let failure = try #require(await Self.failure("https://nowhere.invalid"))
        #expect(failure.kind == .unsent)
        #expect(failure.reason.contains("resolved"))
    }

    @Test("a certificate of another authority is refused")
    func otherAuthority() async throws {
        let server = try await ScriptedServer.start(authority: .other) { _ in [.answer(200)] }
        let failure = try #require(await Self.failure(server.url))
        #expect(failure.kind == .unsent)
        #expect(failure.reason.contains("certificate"))
        #expect(server.requests.isEmpty)
        await server.stop()
    }

    @Test("the certificate must name the host: by name, and by address")
    func names() async throws {
        let server = try await ScriptedServer.start { _ in [.answer(200)] }
        #expect(try await Self.failure("https://localhost:\(server.port)") == nil)
        #expect(try await Self.failure("https://127.0.0.1:\(server.port)") == nil)
        await server.stop()
        // An address that the certificate doesn't list.
        let other = try await ScriptedServer.start(host: "127.0.0.2") { _ in [.answer(200)] }
        let failure = try #require(await Self.failure("https://127.0.0.2:\(other.port)"))
        #expect(failure.kind == .unsent)
        #expect(other.requests.isEmpty)
        await other.stop()
    }

    @Test("a server without HTTP/2 is named as such, and what it sends does no harm")
    func noHTTP2() async throws {
        for _ in 0..<20 {
            let server = try await ScriptedServer.start(alpn: ["http/1.1"]) { _ in [.answer(200)] }
            let failure = try #require(await Self.failure(server.url))
            #expect(failure.kind == .unsent)
            #expect(failure.reason.contains("HTTP/2"))
            await server.stop()
        }
    }

    @Test("after failed attempts the backoff holds: requests come back at once and nobody connects")
    func backoff() async throws {
        try await Fixture.run({ _ in [.close] }) { fixture in
            let client = try fixture.client()
            // Attempts that never get an answer count as failed.
            for _ in 0..<2 { #expect(await client.post().failure?.kind == .unanswered) }
            let connections = fixture.server.log.connections
            for _ in 0..<20 { #expect(await client.post().failure?.kind == .unsent) }
            #expect(fixture.server.log.connections == connections)
            fixture.hand.advance(seconds: 1)
            #expect(await client.post().failure?.kind == .unanswered)
            #expect(fixture.server.log.connections == connections + 1)
            await client.stop()
        }
    }

    @Test("the backoff grows from nothing to half a minute")
    func ladder() {
        let seconds = (1...12).map { Double(ConnectBackoff.nanoseconds(failures: $0, random: 0)) / 1e9 }
        #expect(seconds == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30])
        #expect(ConnectBackoff.nanoseconds(failures: 12, random: .max) < .seconds(38))
    }

    @Test("a probe connects and sends no request")
    func probe() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            let client = try fixture.client()
            if case .failure(let failure) = await client.probe() { Issue.record("\(failure.reason)") }
            #expect(fixture.server.requests.isEmpty)
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("shutting down waits for an attempt to connect, because its event loop may end right after")
    func attemptAtTheEnd() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.attemptsAtEnd = .seconds(3_600) }
            let attempts = client.eventLoop.flatSubmit {
                client.connectIfNeeded(now: client.now())
                let atFirst = client.attempts
                let end = client.eventLoop.makePromise(of: Void.self)
                client.beginShutDown(end, within: .hours(1))
                return end.futureResult.map { [atFirst, client.attempts] }
            }
            #expect(try await attempts.get() == [1, 0])
        }
    }

    @Test("an attempt to connect that never ends doesn't hold up a shutdown beyond either limit")
    func endlessAttempt() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            for (attemptsAtEnd, limit) in [(Int64.seconds(3_600), TimeAmount.milliseconds(1)), (1_000_000, .hours(1))] {
                let client = try fixture.client { $0.attemptsAtEnd = attemptsAtEnd }
                _ = try await client.inspect { $0.attempts += 1 }
                await client.shutDown(within: limit)
                #expect(try await client.inspect { $0.attempts } == 1)
            }
        }
    }

    @Test(
        "addresses",
        arguments: [
            ("https://localhost", "localhost", 443, ""), ("https://a.b:2197/", "a.b", 2197, ""),
            ("https://[::1]:8443/x/", "::1", 8443, "/x"), ("HTTPS://h/one/two", "h", 443, "/one/two"),
        ])
    func endpoints(_ url: String, _ host: String, _ port: Int, _ path: String) throws {
        let endpoint = try HTTP2Endpoint(url: url)
        #expect(endpoint.host == host)
        #expect(endpoint.port == port)
        #expect(endpoint.basePath == path)
    }

    @Test(
        "addresses that are refused",
        arguments: [
            "http://localhost", "localhost:443", "https://", "https://u:p@h", "https://h:0", "https://h:70000",
            "https://h?x=1", "https://h:x", "https://h\r\n", "https://[::1",
        ])
    func badEndpoints(_ url: String) {
        #expect(throws: OperatorError.self) { try HTTP2Endpoint(url: url) }
    }
}
