import Glibc
@testable import HTTPEngine
import Synchronization
import TestSupport
import Testing

/// Writes to a socket that was taken over, and keeps it.
private func write(_ text: String, to socket: TakenSocket) {
    guard let descriptor = socket.release() else {
        Issue.record("the socket is gone")
        return
    }
    let bytes = Array(text.utf8)
    #expect(Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    _ = close(descriptor)
}

@Suite("A connection is handed to the application", .serialized)
struct TakeOverTests {
    @Test(
        "The client gets what the application writes and nothing else, at once or after work that waited",
        arguments: [false, true])
    func written(waits: Bool) async throws {
        let journal = Journal()
        let gate = Gate()
        gate.open()
        let outcome = try await withServer(threads: 1, journal: journal) { _ in
            let answer = Response(takeOver: 200) { write("HTTP/1.1 200 OK\r\nX-Own: yes\r\n\r\nhello", to: $0) }
            guard waits else { return .now(answer) }
            return .later {
                await gate.wait()
                return answer
            }
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
            return client.readToEnd()
        }
        #expect(String(decoding: outcome.result, as: UTF8.self) == "HTTP/1.1 200 OK\r\nX-Own: yes\r\n\r\nhello")
        #expect(journal.all.map(\.status) == [200])
        #expect(outcome.statistics.isClean)
    }

    @Test("It outlives the library's connection and the server, in both directions")
    func outlives() async throws {
        let taken = Taken()
        let journal = Journal()
        let client = try await withServer(journal: journal) { _ in
            .now(Response(takeOver: 101) { taken.add($0) })
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET /cable HTTP/1.1\r\nHost: a\r\n\r\n")
            server.waitUntil { $0.connectionsOpened == 1 && $0.connectionsOpen == 0 }
            return Box(client)
        }.result.value
        let descriptor = try #require(taken.all.first?.release())
        client.send("from the client")
        var bytes = [UInt8](repeating: 0, count: 64)
        var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&wait, 1, 120_000) == 1)
        let count = read(descriptor, &bytes, bytes.count)
        #expect(String(decoding: bytes[..<max(0, count)], as: UTF8.self) == "from the client")
        #expect(Glibc.send(descriptor, "from the server", 15, Int32(MSG_NOSIGNAL)) == 15)
        _ = close(descriptor)
        #expect(String(decoding: client.readToEnd(), as: UTF8.self) == "from the server")
        #expect(journal.all.map(\.status) == [101])
    }

    @Test("Requests before it on its connection, and other connections, are answered as ever")
    func neighbours() async throws {
        let outcome = try await withServer(threads: 1) { request in
            guard request.path == "/stream", request.method != .head else {
                return .now(Response(status: 200, body: .text("\(request.method.name) \(request.path) \(request.body.count)")))
            }
            return .now(Response(takeOver: 200) { write("taken", to: $0) })
        } clients: { server in
            let other = try RawClient(port: server.port)
            other.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            var bodies = [other.answer()?.body]
            let client = try RawClient(port: server.port)
            client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n")
            bodies.append(client.answer(bodiless: true)?.headers["content-length"])
            client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
            bodies.append(client.answer()?.body)
            bodies.append(String(decoding: client.readToEnd(), as: UTF8.self))
            other.send("GET /c HTTP/1.1\r\nHost: a\r\n\r\n")
            bodies.append(other.answer()?.body)
            return bodies
        }
        #expect(outcome.result == ["GET /a 0", "14", "POST /b 3", "taken", "GET /c 0"])
        #expect(outcome.statistics.connectionsOpened == 2)
        #expect(outcome.statistics.isClean)
    }

    @Test(
        "What follows the request before its answer would be lost, so it is refused; an empty line before isn't",
        arguments: [
            ("", "\u{81}\u{80}abcd", 400), ("", "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("\r\n", "", 200),
        ])
    func bytesAfter(before: String, after: String, status: Int) async throws {
        let alive = Counter()
        let outcome = try await withServer { _ in
            let reservation = Reservation(alive)
            return .now(
                Response(takeOver: 200) { socket in
                    withExtendedLifetime(reservation) { write("HTTP/1.1 200 OK\r\n\r\n", to: socket) }
                })
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send(before + "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n" + after)
            return RawClient.answers(in: client.readToEnd())
        }
        #expect(outcome.result.map(\.status) == [status])
        #expect(alive.value == 0, "what the closure held is let go")
        #expect(outcome.statistics.isClean)
    }

    @Test("A thousand connections that were handed over are closed by their last owner and by nobody else")
    func thousand() async throws {
        let outcome = try await withServer { _ in
            .now(Response(takeOver: 200) { _ in })
        } clients: { server in
            var closed = 0
            for _ in 0..<1_000 {
                let client = try RawClient(port: server.port)
                client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
                // The client sees the end only when no descriptor of the connection is left.
                if client.readToEnd() == [] { closed += 1 }
            }
            server.waitUntil { $0.connectionsOpen == 0 }
            return closed
        }
        #expect(outcome.result == 1_000)
        #expect(outcome.statistics.requestsBegun == 1_000)
        #expect(outcome.statistics.isClean)
    }

    @Test("The sweeper leaves it alone")
    func sweeper() async throws {
        let clock = HandClock()
        let running = Mutex<HTTPServer?>(nil)
        let outcome = try await withServer(clock: clock) { _ in
            .now(
                Response(takeOver: 200) { socket in
                    // Between the hand-over and the library's closing.
                    clock.advance(seconds: 10_000)
                    running.withLock { _ = $0?.sweep() }
                    write("alive", to: socket)
                })
        } _: { server in
            running.withLock { $0 = server }
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.readToEnd()
            }
        }
        running.withLock { $0 = nil }
        #expect(String(decoding: outcome.result, as: UTF8.self) == "alive")
    }

    @Test("A server that stops refuses what waits to be handed over, and lets go of what it holds")
    func stopping() async throws {
        let gate = Gate()
        let alive = Counter()
        let journal = Journal()
        let outcome = try await withServer(threads: 1, journal: journal) { _ in
            .later {
                let reservation = Reservation(alive)
                await gate.wait()
                return Response(takeOver: 200) { _ in withExtendedLifetime(reservation) {} }
            }
        } _: { server in
            let port = server.port
            async let status = offThePool {
                let client = try RawClient(port: port)
                client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.answer()?.status
            }
            await gate.arrivals(1)
            _ = try await offThePool { server.stop() }
            gate.open()
            return try await status
        }
        #expect(outcome.result == 503)
        #expect(journal.all.map(\.status) == [503])
        #expect(outcome.statistics.isClean)
        await alive.until(0)
    }

    @Test("A draining server still hands over, because the application decides, and has nothing to wait for then")
    func draining() async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: 1) { _ in
            .later {
                await gate.wait()
                return Response(takeOver: 200) { write("taken", to: $0) }
            }
        } _: { server in
            let port = server.port
            async let bytes = offThePool {
                let client = try RawClient(port: port)
                client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.readToEnd()
            }
            await gate.arrivals(1)
            async let quiet = offThePool { server.drain(within: 20_000_000_000) }
            gate.open()
            return try await (String(decoding: bytes, as: UTF8.self), quiet)
        }
        #expect(outcome.result == ("taken", true))
    }

    @Test("A socket that nobody takes is closed when it is let go, and one that was taken isn't")
    func ownership() throws {
        var (client, socket) = try connectedPair()
        socket = try connectedPair().socket
        #expect(client.readToEnd() == [])
        (client, socket) = try connectedPair()
        let descriptor = try #require(socket.release())
        #expect(socket.release() == nil)
        socket.close()
        #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
        #expect(Glibc.send(descriptor, "x", 1, Int32(MSG_NOSIGNAL)) == 1)
        _ = close(descriptor)
        #expect(client.readToEnd() == [0x78])
    }
}
