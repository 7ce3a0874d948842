import Glibc
import HTTPEngine
import TestSupport
import Testing

@Suite("Limits", .serialized)
struct LimitTests {
    private let limits: Limits = {
        var limits = Limits()
        limits.bodyBytes = 1_000
        limits.headerBytes = 4_096
        limits.uriBytes = 256
        limits.headerCount = 10
        return limits
    }()

    /// Sends bytes, ends the sending, and returns every answer.
    private func exchange(_ bytes: String) async throws -> (answers: [RawClient.Answer], paths: [String], isClean: Bool) {
        let journal = Journal()
        let outcome = try await withServer(limits: limits, journal: journal) { request in
            .now(Response(status: 200, body: .text("\(request.body.count)")))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send(bytes)
            client.finishSending()
            return RawClient.answers(in: client.readToEnd(sweeping: server))
        }
        return (outcome.result, journal.all.filter { $0.status == 200 }.map(\.path), outcome.statistics.isClean)
    }

    private let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

    private func body(_ size: Int) -> String { String(repeating: "b", count: size) }

    @Test("A body at the limit is served, one byte more is 413 before the body, and closes")
    func contentLength() async throws {
        let fits = try await exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n\(body(1_000))\(next)")
        #expect(fits.answers.map(\.status) == [200, 200])
        #expect(fits.answers.first?.body == "1000")
        let tooLarge = try await exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n")
        #expect(tooLarge.answers.map(\.status) == [413])
        #expect(tooLarge.answers.first?.body == "engine: bodyTooLarge")
        #expect(tooLarge.answers.first?.closes == true)
        #expect(tooLarge.isClean)
    }

    @Test(
        "A client that sends all of a body over the limit before it reads gets its 413 whole, and no reset",
        arguments: [1 << 20, 1 << 24], [false, true])
    func sentBeforeRead(size: Int, isChunked: Bool) async throws {
        let framing = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(size)"
        let content = isChunked ? "\(String(size, radix: 16))\r\n\(body(size))\r\n0\r\n\r\n" : body(size)
        let outcome = try await withServer(limits: limits, clock: HandClock()) { _ in
            .now(Response(status: 200))
        } _: { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                errno = 0
                client.send("POST / HTTP/1.1\r\nHost: a\r\n\(framing)\r\n\r\n\(content)")
                let sending = errno
                let received = client.readToEnd()
                return (answers: RawClient.answers(in: received), errors: [sending, errno])
            }
        }
        #expect(outcome.result.answers.map(\.body) == ["engine: bodyTooLarge"])
        // A call that succeeds may leave any other number.
        #expect(!outcome.result.errors.contains { [ECONNRESET, EPIPE].contains($0) })
        #expect(outcome.statistics.isClean)
    }

    @Test(
        "A client that waits before it sends a body over the limit hears of the end with its 413",
        arguments: ["", "Expect: 100-continue\r\n"])
    func neverSent(field: String) async throws {
        let outcome = try await withServer(limits: limits) { _ in
            .now(Response(status: 200))
        } _: { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST / HTTP/1.1\r\nHost: a\r\n\(field)Content-Length: 1001\r\n\r\n")
                return RawClient.answers(in: client.readToEnd())
            }
        }
        #expect(outcome.result.map(\.status) == [413])
        #expect(outcome.result.first?.closes == true)
        #expect(outcome.statistics.isClean)
    }

    @Test("A chunked body at the limit is served, one byte more is 413 and closes")
    func chunked() async throws {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        let half = "1f4\r\n\(body(500))\r\n"
        let fits = try await exchange("\(head)\(half)\(half)0\r\n\r\n\(next)")
        #expect(fits.answers.map(\.status) == [200, 200])
        #expect(fits.answers.first?.body == "1000")
        let tooLarge = try await exchange("\(head)\(half)\(half)1\r\nx\r\n0\r\n\r\n\(next)")
        #expect(tooLarge.answers.map(\.status) == [413])
        #expect(tooLarge.answers.first?.closes == true)
        #expect(tooLarge.paths == [], "what follows on the connection isn't served")
    }

    @Test("A chunked body that goes on over the limit is 413 and closes, also when the client breaks off or its chunks do")
    func chunkedEndless() async throws {
        for end in ["", "1f4\r\nxyz", "no size\r\n", "0\r\nX: y\r\n\r\n\(next)"] {
            let outcome = try await exchange(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + String(repeating: "1f4\r\n\(body(500))\r\n", count: 8) + end)
            #expect(outcome.answers.map(\.body) == ["engine: bodyTooLarge"])
            #expect(outcome.answers.first?.closes == true)
            #expect(outcome.paths == [])
            #expect(outcome.isClean)
        }
    }

    @Test("A target at the limit is served, one byte more is 414")
    func target() async throws {
        let fits = try await exchange("GET /\(body(255)) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(fits.answers.map(\.status) == [200])
        let tooLong = try await exchange("GET /\(body(256)) HTTP/1.1\r\nHost: a\r\n\r\n\(next)")
        #expect(tooLong.answers.map(\.body) == ["engine: uriTooLong"])
    }

    @Test("A query of nothing but separators is only a long query")
    func separators() async throws {
        let outcome = try await exchange("GET /?\(String(repeating: "&", count: 254)) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(outcome.answers.map(\.status) == [200])
        let tooLong = try await exchange("GET /?\(String(repeating: "&", count: 12_000)) HTTP/1.1\r\nHost: a\r\n\r\n\(next)")
        #expect(tooLong.answers.map(\.body) == ["engine: uriTooLong"])
    }

    @Test("A header section at the limit is served, one byte more is 431")
    func headers() async throws {
        let rest = 4_096 - "Host: a\r\nX: \r\n\r\n".utf8.count
        let fits = try await exchange("GET / HTTP/1.1\r\nHost: a\r\nX: \(body(rest))\r\n\r\n")
        #expect(fits.answers.map(\.status) == [200])
        let tooLarge = try await exchange("GET / HTTP/1.1\r\nHost: a\r\nX: \(body(rest + 1))\r\n\r\n\(next)")
        #expect(tooLarge.answers.map(\.body) == ["engine: headersTooLarge"])
    }

    @Test("As many header fields as allowed are served, one more is 431")
    func headerCount() async throws {
        let fits = try await exchange("GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: y\r\n", count: 9))\r\n")
        #expect(fits.answers.map(\.status) == [200])
        let tooMany = try await exchange("GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: y\r\n", count: 10))\r\n\(next)")
        #expect(tooMany.answers.map(\.body) == ["engine: headersTooLarge"])
    }

    @Test("With the default limits, a target, a header section and header fields at their limits all fit")
    func defaultsFit() async throws {
        let limits = Limits()
        let fields = String(repeating: "X: y\r\n", count: limits.headerCount - 2)
        let rest = limits.headerBytes - "Host: a\r\nCookie: \r\n\r\n".utf8.count - fields.utf8.count
        let request = "GET /\(body(limits.uriBytes - 1)) HTTP/1.1\r\nHost: a\r\n\(fields)X-Fill: \(body(rest - 1))\r\n\r\n"
        let outcome = try await withServer { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send(request)
            return client.answer()?.status
        }
        #expect(outcome.result == 200)
    }

    @Test("Connections over the limit wait and are served when one closes")
    func connectionLimit() async throws {
        var options = HTTPServerOptions(threads: 2)
        options.connectionLimit = 2
        let server = HTTPServer(options: options, handler: { _ in .now(Response(status: 200)) }, finish: finished)
        let port = try server.start()
        let status = try await offThePool {
            var held: [RawClient] = try (0..<2).map { _ in
                let client = try RawClient(port: port)
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                _ = client.answer()
                return client
            }
            let waiting = try RawClient(port: port)
            waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let open = server.statistics.connectionsOpen
            held.removeLast()
            return [open, waiting.answer()?.status ?? 0]
        }
        _ = try await offThePool { server.stop() }
        #expect(status == [2, 200])
    }
}

@Suite("Clients that hang up", .serialized)
struct HangupTests {
    @Test("A client that sends a request and its end together gets its answer, and the sweep closes the connection")
    func halfClosed() async throws {
        let outcome = try await withServer { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            client.finishSending()
            let answers = RawClient.answers(in: client.readToEnd(sweeping: server))
            server.waitUntil { $0.connectionsOpen == 0 }
            return answers.map(\.status)
        }
        #expect(outcome.result == [200])
        #expect(outcome.statistics.deadlinesMissed == 0)
    }

    @Test("A client that sends a request and its end is answered also when the request has to wait while others are connected")
    func halfClosedAndWaiting() async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: 1) { request in
            guard request.path == "/wait" else { return .now(Response(status: 200, body: .constant("now"))) }
            return .later {
                await gate.wait()
                return Response(status: 200, body: .text(String(decoding: request.body, as: UTF8.self)))
            }
        } _: { server in
            let port = server.port
            let (client, other) = try await offThePool {
                let other = try RawClient(port: port)
                other.send("GET /now HTTP/1.1\r\nHost: a\r\n\r\n")
                _ = other.answer()
                let client = try RawClient(port: port)
                client.send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
                client.finishSending()
                return (Box(client), Box(other))
            }
            await gate.arrivals(1)
            // Once this is answered the thread has left the first request, which is suspended.
            let quick = try await offThePool {
                other.value.send("GET /now HTTP/1.1\r\nHost: a\r\n\r\n")
                return other.value.answer()?.body
            }
            gate.open()
            return try await [quick, offThePool { client.value.answer()?.body }]
        }
        #expect(outcome.result == ["now", "hi"])
        #expect(outcome.statistics.isClean)
    }

    @Test("An open, silent client is left alone by the sweep")
    func silent() async throws {
        let outcome = try await withServer { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            server.waitUntil { $0.connectionsOpen == 1 }
            for _ in 0..<100 { server.sweep() }
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return client.answer()?.status
        }
        #expect(outcome.result == 200)
    }
}

@Suite("Deadlines of a running server", .serialized, .endsIfItHangs)
struct RunningDeadlineTests {
    /// Sends bytes, moves the clock to just before and just after the deadline, and says how many were ended before it.
    private func ended(by bytes: String, after seconds: UInt64) async throws -> (early: UInt64, closed: Bool, isClean: Bool) {
        let clock = HandClock()
        let outcome = try await withServer(clock: clock) { _ in
            .now(Response(status: 200))
        } clients: { server in
            let client = try RawClient(port: server.port)
            // A first request proves that the connection is in the server's table.
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = client.answer()
            server.waitUntil { $0.requestsEnded == 1 }
            client.send(bytes)
            server.waitUntil { $0.requestsBegun == (bytes.contains("\r\n") ? 2 : 1) }
            clock.advance(seconds: seconds)
            let early = server.missed()
            clock.advance(seconds: 1)
            blockUntil { server.missed() > 0 }
            return (early, client.isClosedByServer())
        }
        return (outcome.result.0, outcome.result.1, outcome.statistics.isClean)
    }

    @Test("An idle connection is ended after the idle deadline")
    func idle() async throws {
        let outcome = try await ended(by: "", after: 75)
        #expect(outcome == (0, true, true))
    }

    @Test("A request line that never ends doesn't keep an idle connection alive")
    func unfinishedRequestLine() async throws {
        let outcome = try await ended(by: "GET /slow", after: 75)
        #expect(outcome == (0, true, true))
    }

    @Test("Headers that never end are ended after the request deadline")
    func unfinishedHead() async throws {
        let outcome = try await ended(by: "GET / HTTP/1.1\r\nHost: a\r\nX: ", after: 15)
        #expect(outcome == (0, true, true))
    }

    @Test("A body that never ends is ended after the request deadline, counted from the request line")
    func unfinishedBody() async throws {
        let outcome = try await ended(by: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", after: 15)
        #expect(outcome == (0, true, true))
    }

    @Test("A body over the limit that never ends is read away until the request deadline, and what comes after it isn't served")
    func refusedBody() async throws {
        let clock = HandClock()
        let journal = Journal()
        let outcome = try await withServer(clock: clock, journal: journal) { _ in
            .now(Response(status: 200))
        } _: { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc")
                let answer = RawClient.answers(in: client.readToEnd()).map(\.status)
                clock.advance(seconds: 15)
                let early = server.missed()
                client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
                clock.advance(seconds: 1)
                blockUntil { server.missed() > 0 }
                server.waitUntil { $0.connectionsOpen == 0 }
                return (answer, early)
            }
        }
        #expect(outcome.result == ([413], 0))
        #expect(journal.all.map(\.path) == ["/large"])
        #expect(journal.all.map(\.status) == [413])
        #expect(outcome.statistics.isClean)
    }

    @Test("A client that doesn't take its answer is ended after the response deadline")
    func unreadAnswer() async throws {
        let clock = HandClock()
        let outcome = try await withServer(clock: clock) { _ in
            .now(Response(status: 200, body: .array([UInt8](repeating: 0x78, count: 32 << 20))))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            server.waitUntil { $0.requestsBegun == 1 }
            clock.advance(seconds: 61)
            // The answer is queued a moment after the request was counted.
            blockUntil { server.missed() > 0 }
            return client.readToEnd().count
        }
        #expect(outcome.result < 32 << 20)
        #expect(outcome.statistics.isClean)
    }

    @Test("A request that the application works on is not ended, however long it takes")
    func handling() async throws {
        let clock = HandClock()
        let gate = Gate()
        let outcome = try await withServer(clock: clock) { _ in
            .later {
                await gate.wait()
                return Response(status: 200)
            }
        } _: { server in
            let port = server.port
            async let status = offThePool {
                let client = try RawClient(port: port)
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.answer()?.status
            }
            await gate.arrivals(1)
            clock.advance(seconds: 3_600)
            let ended = server.sweep()
            gate.open()
            return try await (ended, status)
        }
        #expect(outcome.result == (0, 200))
    }
}
