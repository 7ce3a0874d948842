import Dispatch
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@testable import Push

@Suite("HTTP/2 faults", .endsIfItHangs) struct HTTP2FaultTests {
    @Test("GOAWAY: what is above the last stream was never processed, what is below gets its answer")
    func goAway() async throws {
        try await Fixture.run({ $0.connection == 0 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client()
            let pending = (0..<4).map { client.begin("/\($0)") }
            await fixture.server.until { $0.requests.count == 4 }
            let requests = fixture.server.requests.sorted { $0.streamID < $1.streamID }
            fixture.server.react([.goAway(last: requests[1].streamID, #"{"reason":"Shutdown"}"#)])
            for request in requests[2...] {
                let number = try #require(Int(request.path.dropFirst()))
                let failure = try #require(await pending[number].value.failure)
                #expect(failure.kind == .refused)
                #expect(failure.reason.contains("Shutdown"))
            }
            // No new stream there; another connection takes what comes.
            #expect(await client.post("/new").status == 200)
            for request in requests[..<2] { fixture.server.answer(request, [.answer(200)]) }
            for request in requests[..<2] {
                let number = try #require(Int(request.path.dropFirst()))
                #expect(await pending[number].value.status == 200)
            }
            #expect(fixture.server.requests.filter { $0.connection == 0 }.count == 4)
            #expect(fixture.server.requests.filter { $0.connection == 1 }.map(\.path) == ["/new"])
            #expect(pending.allSatisfy { $0.times == 1 })
            await client.stop()
        }
    }

    @Test("a connection that has worked is replaced at once when the server says GOAWAY")
    func replaced() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            let client = try fixture.client()
            #expect(await client.post().status == 200)
            fixture.server.react([.goAway(last: 1)])
            await fixture.server.until { $0.connections == 2 }
            await client.stop()
        }
    }

    @Test("what waits for a stream doesn't go over a connection whose end came together with the last answer")
    func endsWithAnAnswer() async throws {
        try await Fixture.run(maxStreams: 1, { $0.connection == 0 ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client()
            let pending = (0..<2).map { client.begin("/\($0)") }
            await fixture.server.until { $0.requests.count == 1 }
            let (isHeld, isSent) = (Watched(false), DispatchSemaphore(value: 0))
            client.eventLoop.execute {
                isHeld.change { $0 = true }
                isSent.wait()
            }
            await isHeld.until { $0 }
            // Both are there before the client reads the first.
            for reaction in [Reaction.answer(200), .close] {
                let before = try Self.sockets(to: fixture.server.port).filter(\.isOpen)
                fixture.server.answer(fixture.server.requests[0], [reaction])
                try await lookUntil { try Self.sockets(to: fixture.server.port).filter(\.isOpen) != before }
            }
            isSent.signal()
            #expect(await pending[0].value.status == 200)
            #expect(await pending[1].value.status == 200)
            await client.stop()
        }
    }

    @Test("an answer that is longer than is kept is an answer, and no error of its connection")
    func longAnswer() async throws {
        let long = String(repeating: "z", count: 40_000)
        try await Fixture.run({ _ in [.answer(500, long)] }) { fixture in
            let client = try fixture.client()
            #expect(await client.post().status == 500)
            try await client.finishReading()
            #expect(try await client.inspect { $0.connections.map(\.explainedErrors) } == [0])
            #expect(try await client.inspect { $0.connections.map(\.answers) } == [1])
            await client.stop()
        }
    }

    @Test("GOAWAY after the answers loses nothing under a steady stream of requests")
    func goAwayUnderLoad() async throws {
        let script: ScriptedServer.Script = { request in
            request.number % 20 == 19 ? [.answer(200), .goAway(last: request.streamID)] : [.answer(200)]
        }
        try await Fixture.run(maxStreams: 10, script) { fixture in
            let client = try fixture.client()
            var outcomes: [Bool] = []
            let pending = (0..<100).map { client.begin("/\($0)") }
            for item in pending {
                let result = await item.value
                outcomes.append(result.status == 200)
                if let failure = result.failure { #expect(failure.kind == .refused) }
            }
            // Each request was answered, or is known never to have been looked at.
            let seen = Set(fixture.server.requests.map(\.path))
            for (number, isAnswered) in outcomes.enumerated() where isAnswered { #expect(seen.contains("/\(number)")) }
            #expect(outcomes.contains(true))
            #expect(fixture.server.log.violations == 0)
            await client.stop()
        }
    }

    @Test("REFUSED_STREAM was never processed, any other reset leaves it open")
    func resets() async throws {
        try await Fixture.run({ [$0.path == "/refuse" ? .refuse : .reset(.internalError)] }) { fixture in
            let client = try fixture.client()
            #expect(await client.post("/refuse").failure?.kind == .refused)
            let other = await client.post("/reset").failure
            #expect(other?.kind == .unanswered)
            #expect(other?.reason.contains("INTERNAL_ERROR") ?? false)
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("hundreds of refused streams don't end the connection")
    func manyResets() async throws {
        try await Fixture.run({ $0.number < 300 ? [.refuse] : [.answer(200)] }) { fixture in
            let client = try fixture.client()
            let pending = (0..<300).map { _ in client.begin() }
            for item in pending { #expect(await item.value.failure?.kind == .refused) }
            #expect(await client.post().status == 200)
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("a lost connection leaves open what was sent, and sends what waited over the next one")
    func lost() async throws {
        let script: ScriptedServer.Script = { request in
            request.connection == 0 ? [request.number == 2 ? .close : .silence] : [.answer(200)]
        }
        try await Fixture.run(maxStreams: 3, script) { fixture in
            let client = try fixture.client()
            let pending = (0..<5).map { client.begin("/\($0)") }
            var unanswered = 0
            var good = 0
            for item in pending {
                let result = await item.value
                if result.failure?.kind == .unanswered { unanswered += 1 }
                if result.status == 200 { good += 1 }
            }
            #expect(unanswered == 3)
            #expect(good == 2)
            await client.stop()
        }
    }

    @Test("no answer within the deadline: the stream is reset, the others stay")
    func deadline() async throws {
        try await Fixture.run({ $0.path == "/slow" ? [.silence] : [.answer(200)] }) { fixture in
            let client = try fixture.client { $0.pingAnswer = .minutes(60) }
            let slow = client.begin("/slow")
            await fixture.server.until { $0.requests.count == 1 }
            fixture.hand.advance(seconds: 19)
            try await client.sweepNow()
            #expect(!slow.isThere)
            fixture.hand.advance(seconds: 1)
            try await client.sweepNow()
            let failure = try #require(await slow.value.failure)
            #expect(failure.kind == .unanswered)
            #expect(failure.reason.contains("20 s"))
            #expect(await client.post("/quick").status == 200)
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("an answer that broke off counts as accepted only if its status says so")
    func brokenOff() async throws {
        let script: ScriptedServer.Script = { request in
            switch request.path {
            case "/good": [.begin(200, "{\"na")]
            case "/bad": [.begin(400, "{\"re")]
            default: [.answer(200)]
            }
        }
        try await Fixture.run(script) { fixture in
            let client = try fixture.client { $0.pingAnswer = .minutes(60) }
            let good = client.begin("/good")
            let bad = client.begin("/bad")
            // Frames keep their order: when this answer is there, what was sent before it is too.
            #expect(await client.post("/last").status == 200)
            fixture.hand.advance(seconds: 20)
            try await client.sweepNow()
            guard case .answer(let answer) = await good.value else { throw NoAnswer() }
            #expect(answer.status == 200)
            #expect(!answer.isWhole)
            #expect(await bad.value.failure?.kind == .unanswered)
            await client.stop()
        }
    }

    struct NoAnswer: Error {}

    @Test("a half-open connection is found out by PING, and what was on it stays open")
    func halfOpen() async throws {
        try await Fixture.run({ $0.path == "/lost" ? [.mute] : [.answer(200)] }) { fixture in
            let client = try fixture.client()
            // With its answer all that begins a connection has come.
            #expect(await client.post("/first").status == 200)
            try await client.finishReading()
            let lost = client.begin("/lost")
            await fixture.server.until { $0.requests.count == 2 }
            let broken = try #require(try Self.sockets(to: fixture.server.port).first(where: \.isOpen))
            fixture.hand.advance(seconds: 5)
            try await client.sweepNow()
            fixture.hand.advance(seconds: 10)
            try await client.sweepNow()
            let failure = try #require(await lost.value.failure)
            #expect(failure.kind == .unanswered)
            #expect(failure.reason.contains("PING"))
            #expect(await client.post("/next").status == 200)
            #expect(fixture.server.log.connections == 2)
            // The first was reset. Closed in order, its socket would still wait, and send again what wasn't received.
            await fixture.server.until { $0.ends == 1 }
            #expect(try Self.isGone(broken, to: fixture.server.port))
            await client.stop()
        }
    }

    @Test("a connection is reset as well whose requests were given up before it was found out, as after a machine's sleep")
    func lateThenHalfOpen() async throws {
        try await Fixture.run({ $0.path == "/lost" ? [.mute] : [.answer(200)] }) { fixture in
            let client = try fixture.client()
            #expect(await client.post("/first").status == 200)
            try await client.finishReading()
            let lost = client.begin("/lost")
            await fixture.server.until { $0.requests.count == 2 }
            let broken = try #require(try Self.sockets(to: fixture.server.port).first(where: \.isOpen))
            fixture.hand.advance(seconds: 30)
            try await client.sweepNow()
            #expect(await lost.value.failure?.reason.contains("20 s") == true)
            for seconds in [61, 10] {
                fixture.hand.advance(seconds: Int64(seconds))
                try await client.sweepNow()
            }
            #expect(await client.post("/next").status == 200)
            await fixture.server.until { $0.ends == 1 }
            #expect(try Self.isGone(broken, to: fixture.server.port))
            await client.stop()
        }
    }

    /// A socket as the system tells it, in hexadecimal digits (proc(5), /proc/net/tcp): its own address, the state, and the bytes that wait
    /// to be read.
    private struct Socket: Equatable {
        let address: Substring
        let state: Substring
        let unread: Substring
        var isOpen: Bool { state == "01" }
    }

    /// Those to a port. Of an earlier server at the port some may have ended a while ago.
    private static func sockets(to port: Int) throws -> [Socket] {
        let table = try ChildProgram.output(of: "/bin/cat", ["/proc/net/tcp"])
        let hex = String(port, radix: 16, uppercase: true)
        let remote = ":" + String(repeating: "0", count: 4 - hex.count) + hex
        return table.split(separator: "\n").map { $0.split(separator: " ") }.filter { $0[2].hasSuffix(remote) }
            .map { Socket(address: $0[1], state: $0[3], unread: $0[4].suffix(8)) }
    }

    /// Returns whether the system has nothing left of a socket: one that was closed and not reset stays for a minute.
    private static func isGone(_ socket: Socket, to port: Int) throws -> Bool {
        try !sockets(to: port).contains { $0.address == socket.address }
    }

    @Test("an idle connection is pinged every minute, and stays")
    func idle() async throws {
        try await Fixture.run({ _ in [.answer(200)] }) { fixture in
            let client = try fixture.client()
            #expect(await client.post().status == 200)
            try await client.finishReading()
            fixture.hand.advance(seconds: 59)
            try await client.sweepNow()
            #expect(fixture.server.log.pings == 0)
            for count in 1...3 {
                try await client.finishReading()
                fixture.hand.advance(seconds: 61)
                try await client.sweepNow()
                await fixture.server.until { $0.pings == count }
                #expect(await client.post().status == 200)
            }
            #expect(fixture.server.log.connections == 1)
            await client.stop()
        }
    }

    @Test("a request that finds no stream in time is given back unsent")
    func waitingTooLong() async throws {
        try await Fixture.run(maxStreams: 1, { _ in [.silence] }) { fixture in
            let client = try fixture.client { $0.connections = 1 }
            let first = client.begin("/first")
            await fixture.server.until { $0.requests.count == 1 }
            let second = client.begin("/second")
            try await client.sweepNow()
            fixture.hand.advance(seconds: 10)
            try await client.sweepNow()
            #expect(await second.value.failure?.kind == .unsent)
            #expect(!first.isThere)
            fixture.server.answer(fixture.server.requests[0], [.answer(200)])
            #expect(await first.value.status == 200)
            await client.stop()
        }
    }

    @Test("the queue is bounded: what doesn't fit is turned away at once")
    func queueBound() async throws {
        try await Fixture.run(maxStreams: 1, { _ in [.silence] }) { fixture in
            let client = try fixture.client { $0.waitingRequests = 10 }
            let pending = (0..<100).map { client.begin("/\($0)") }
            try await client.sweepNow()
            let turnedAway = pending.filter(\.isThere).count
            #expect(turnedAway >= 79)
            #expect(try await client.inspect { $0.waiting.count } <= 10)
            await client.stop()
            for item in pending { #expect(await item.value.failure != nil) }
        }
    }

    @Test("when all streams stay taken, more connections are opened, up to the limit")
    func moreConnections() async throws {
        try await Fixture.run(maxStreams: 2, { _ in [.silence] }) { fixture in
            let client = try fixture.client { $0.connections = 3 }
            let pending = (0..<10).map { client.begin("/\($0)") }
            for count in 1...3 {
                await fixture.server.until { $0.requests.count == count * 2 }
                try await client.sweepNow()
                fixture.hand.advance(seconds: 1)
                try await client.sweepNow()
            }
            #expect(fixture.server.log.connections == 3)
            #expect(fixture.server.requests.count == 6)
            await client.stop()
            for item in pending { #expect(await item.value.failure != nil) }
        }
    }

    @Test("shutting down waits for what is under way, gives back what waits, and says goodbye")
    func shutDown() async throws {
        try await Fixture.run(maxStreams: 1, { _ in [.silence] }) { fixture in
            let client = try fixture.client()
            let first = client.begin("/first")
            let second = client.begin("/second")
            await fixture.server.until { $0.requests.count == 1 }
            async let end: Void = client.shutDown(within: .seconds(60))
            #expect(await second.value.failure?.kind == .unsent)
            fixture.server.answer(fixture.server.requests[0], [.answer(200)])
            #expect(await first.value.status == 200)
            await end
            await fixture.server.until { $0.goodbyes == 1 }
            #expect(await client.post().failure?.kind == .unsent)
        }
    }
}
