import NIOCore
import NIOHPACK
import Testing

@testable import Push

@Suite("HTTP/2 connection") struct HTTP2ClientTests {
    @Test("a request is answered with status, fields and body")
    func answer() async throws {
        try await Fixture.run({ _ in [.answer(418, headers: [("x-word", "tea")], "pot")] }) { fixture in
            let client = try fixture.client()
            let result = await client.post("/a", "hello")
            #expect(result.status == 418)
            #expect(result.body == "pot")
            let request = try #require(fixture.server.requests.first)
            #expect(request.path == "/a")
            #expect(request.body == Array("hello".utf8))
            await client.stop()
            await fixture.server.until { $0.goodbyes == 1 }
        }
    }

    @Test("one connection carries many requests, and the announced limit is never passed")
    func manyStreams() async throws {
        try await Fixture.run(maxStreams: 7, { _ in [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.fullness = .minutes(60) }
            await withTaskGroup(of: Int?.self) { group in
                for _ in 0..<100 { group.addTask { await client.post().status } }
                for await status in group { #expect(status == 200) }
            }
            #expect(fixture.server.log.connections == 1)
            #expect(fixture.server.log.violations == 0)
            #expect(fixture.server.log.mostOpen <= 7)
            await client.stop()
        }
    }

    /// The answers come in that order too, and a stream that isn't the oldest is dear to take out of NIOHTTP2's tables.
    @Test("requests that go together are complete in the order in which they were made")
    func order() async throws {
        try await Fixture.run(maxStreams: 200, { $0.number == 0 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.startsWithOneStream = true }
            let pending = (0..<150).map { client.begin("/\($0)", "body \($0)") }
            // All others wait for the first answer, and go together.
            await fixture.server.until { $0.requests.count == 1 }
            #expect(try await client.inspect { $0.waiting.count } == 149)
            fixture.server.answer(fixture.server.requests[0], [.answer(200)])
            for item in pending { #expect(await item.value.status == 200) }
            let streams = fixture.server.requests.map(\.streamID)
            #expect(streams == Array(stride(from: 1, through: 299, by: 2)))
            await client.stop()
        }
    }

    @Test("a request that waits for a stream until its last moment has passed is never sent, and those behind it are")
    func notAfter() async throws {
        try await Fixture.run(maxStreams: 1, { $0.number == 0 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.fullness = .minutes(60) }
            let first = client.begin("/first")
            await fixture.server.until { $0.requests.count == 1 }
            let late = client.begin("/late", notAfter: fixture.hand.monotonic + 1_000_000)
            let other = client.begin("/other", notAfter: fixture.hand.monotonic + 2_000_000)
            fixture.hand.advance(milliseconds: 1)
            fixture.server.answer(fixture.server.requests[0], [.answer(200)])
            #expect(await late.value.failure?.kind == .expired)
            #expect(await first.value.status == 200)
            #expect(await other.value.status == 200)
            #expect(fixture.server.requests.map(\.path) == ["/first", "/other"])
            await client.stop()
        }
    }

    @Test("a limit that is lowered while requests are under way holds at once, and 1 is a limit too")
    func loweredLimit() async throws {
        try await Fixture.run(maxStreams: 10, { $0.number < 10 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.fullness = .minutes(60) }
            let pending = (0..<30).map { client.begin("/\($0)") }
            await fixture.server.until { $0.requests.count == 10 }
            fixture.server.react([.maxStreams(1)])
            let requests = fixture.server.requests
            for request in requests.dropLast() { fixture.server.answer(request, [.answer(200)]) }
            for request in requests.dropLast() {
                let number = try #require(Int(request.path.dropFirst()))
                #expect(await pending[number].value.status == 200)
            }
            // One is under way, and that is all the server takes.
            #expect(try await client.inspect { $0.connections.map(\.streams.count) } == [1])
            #expect(try await client.inspect { $0.waiting.count } == 20)
            fixture.server.answer(requests[9], [.answer(200)])
            for item in pending { #expect(await item.value.status == 200) }
            #expect(fixture.server.log.violations == 0)
            let later = fixture.server.requests.dropFirst(10)
            #expect(later.count == 20)
            await client.stop()
        }
    }

    @Test("a cautious client has one stream until the server accepted a request, whatever limit was announced")
    func startsWithOneStream() async throws {
        try await Fixture.run(maxStreams: 100, { $0.number < 2 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.startsWithOneStream = true }
            let pending = (0..<20).map { client.begin("/\($0)") }
            await fixture.server.until { $0.requests.count == 1 }
            // A refusal proves nothing.
            fixture.server.answer(fixture.server.requests[0], [.answer(403)])
            await fixture.server.until { $0.requests.count == 2 }
            #expect(fixture.server.log.mostOpen == 1)
            fixture.server.answer(fixture.server.requests[1], [.answer(200)])
            for item in pending { #expect(await item.value.status != nil) }
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("a limit of one that is raised after the first good answer is used at once")
    func raisedLimit() async throws {
        let script: ScriptedServer.Script = { request in
            switch request.number {
            case 0: [.answer(200), .maxStreams(50)]
            case 1...10: [.silence]
            default: [.answer(200)]
            }
        }
        try await Fixture.run(maxStreams: 1, script) { fixture in
            let client = try fixture.client { $0.startsWithOneStream = true }
            let pending = (0..<20).map { client.begin("/\($0)") }
            await fixture.server.until { $0.requests.count == 20 }
            #expect(fixture.server.log.mostOpen >= 10)
            #expect(fixture.server.log.violations == 0)
            for request in fixture.server.requests[1...10] { fixture.server.answer(request, [.answer(200)]) }
            for item in pending { #expect(await item.value.status == 200) }
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("three megabytes of answers come over one connection: its window of one is refilled")
    func windows() async throws {
        let body = String(repeating: "x", count: 8_000)
        try await Fixture.run(maxStreams: 500, { _ in [.answer(200, body)] }) { fixture in
            let client = try fixture.client()
            let pending = (0..<400).map { _ in client.begin() }
            for item in pending { #expect(await item.value.body?.utf8.count == 8_000) }
            #expect(fixture.server.log.connections == 1)
            #expect(fixture.server.log.windowUpdates >= 4)
            await client.stop()
        }
    }

    @Test("bodies wait for the server's windows instead of failing")
    func outboundWindows() async throws {
        let body = String(repeating: "y", count: 4_000)
        try await Fixture.run(maxStreams: 500, initialWindow: 8_192, { _ in [.answer(200)] }) { fixture in
            let client = try fixture.client()
            let pending = (0..<60).map { _ in client.begin("/", body) }
            for item in pending { #expect(await item.value.status == 200) }
            #expect(fixture.server.requests.allSatisfy { $0.body.count == 4_000 })
            await client.stop()
        }
    }

    @Test("an answer that is too long is cut off, and its status counts")
    func longAnswer() async throws {
        let long = String(repeating: "z", count: 40_000)
        try await Fixture.run({ $0.number == 0 ? [.answer(200, long)] : [.answer(204)] }) { fixture in
            let client = try fixture.client()
            guard case .answer(let answer) = await client.post() else { throw Missing() }
            #expect(answer.status == 200)
            #expect(!answer.isWhole)
            #expect(answer.body?.readableBytes == 16_384)
            #expect(await client.post().status == 204)
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("an answer that trickles in is put together")
    func trickle() async throws {
        let script: ScriptedServer.Script = { _ in
            [.begin(400, "{")] + "\"a\":1".map { .more(String($0), end: false) } + [.more("}", end: true)]
        }
        try await Fixture.run(script) { fixture in
            let client = try fixture.client()
            #expect(await client.post().body == "{\"a\":1}")
            await client.stop()
        }
    }

    @Test("when the stream ids are used up, another connection takes over")
    func streamIDs() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.lastStreamID = 9 }
            let pending = (0..<12).map { client.begin("/\($0)") }
            for item in pending { #expect(await item.value.status == 200) }
            let ids = fixture.server.requests.map(\.streamID)
            #expect(ids.max() == 9)
            #expect(fixture.server.log.connections == 3)
            await client.stop()
        }
    }

    @Test("the table of streams finds, closes and orders them")
    func table() {
        var table = StreamTable()
        let exchanges = (0..<6).map { _ in
            HTTP2Exchange(request: HTTP2Request(headers: [:], body: ByteBuffer()), waitingSince: 0) { _ in }
        }
        #expect(exchanges.map { table.open($0) } == [1, 3, 5, 7, 9, 11])
        #expect(table.close(3) === exchanges[1])
        #expect(table.close(3) == nil)
        #expect(table[5] === exchanges[2])
        #expect(table.oldest?.id == 1)
        #expect(table.close(1) === exchanges[0])
        #expect(table.oldest?.id == 5)
        #expect(table[1] == nil && table[4_711] == nil)
        #expect(table.closeAll(above: 7).count == 2)
        #expect(table.count == 2)
        #expect(table.close(7) != nil && table.close(5) != nil)
        #expect(table.count == 0 && table.oldest == nil)
        #expect(table.nextID == 13)
    }

    struct Missing: Error {}
}
