import Dispatch
import Glibc
import HTTPEngine
import Synchronization
import SystemSupport
import TestSupport
import Testing

/// Which thread of the system runs this.
private func currentThread() -> pthread_t { pthread_self() }

@Suite("Answers that come later", .serialized, .endsIfItHangs)
struct LaterTests {
    @Test("A handler that waits holds up nobody else on its thread")
    func suspended() async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: 1) { request in
            guard request.path == "/wait" else { return .now(Response(status: 200, body: .constant("now"))) }
            return .later {
                await gate.wait()
                return Response(status: 200, body: .text("waited \(request.header("x-n") ?? "")"))
            }
        } _: { server in
            let port = server.port
            async let waiting = offThePool {
                let client = try RawClient(port: port)
                client.send("GET /wait HTTP/1.1\r\nHost: a\r\nX-N: 1\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                return [client.answer()?.body, client.answer()?.body]
            }
            await gate.arrivals(1)
            let quick = try await offThePool {
                let client = try RawClient(port: port)
                client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.answer()?.body
            }
            gate.open()
            return try await (quick, waiting)
        }
        #expect(outcome.result.0 == "now")
        #expect(outcome.result.1 == ["waited 1", "now"])
        #expect(outcome.statistics.isClean)
    }

    private struct Thrown: Error, CustomStringConvertible {
        let description: String
    }

    @Test("What a handler throws is answered as the application says: at once, without a wait, and after one")
    func thrown() async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: 1) { request in
            switch request.path {
            case "/now": throw Thrown(description: "at once")
            case "/later": return .later { throw Thrown(description: "without a wait") }
            default:
                return .later {
                    await gate.wait()
                    throw Thrown(description: "after a wait")
                }
            }
        } _: { server in
            let port = server.port
            async let answers = offThePool {
                let client = try RawClient(port: port)
                return ["/now", "/later", "/wait", "/now"].map { path in
                    client.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
                    return client.answer().map { "\($0.status) \($0.body)" }
                }
            }
            await gate.arrivals(1)
            gate.open()
            return try await answers
        }
        #expect(
            outcome.result == [
                "500 thrown: at once", "500 thrown: without a wait", "500 thrown: after a wait", "500 thrown: at once",
            ])
        #expect(outcome.statistics.isClean)
    }

    @Test("What is thrown after a stop has ended the request is finished with that request still")
    func thrownTooLate() async throws {
        let (gate, isFinished) = (Gate(), Gate())
        let finishedWith = Mutex<[String]>([])
        let server = HTTPServer(
            handler: { _ in
                .later {
                    await gate.wait()
                    throw Thrown(description: "too late")
                }
            },
            finish: { result, request in
                if case .failure(let error) = result, error is Thrown {
                    finishedWith.withLock { $0.append("\(request.path) \(request.header("x-n") ?? "")") }
                    isFinished.open()
                }
                return finished(result, request)
            })
        let port = try server.start()
        async let status = offThePool {
            let client = try RawClient(port: port)
            client.send("GET /wait HTTP/1.1\r\nHost: a\r\nX-N: 1\r\n\r\n")
            return client.answer()?.status
        }
        await gate.arrivals(1)
        _ = try await offThePool { server.stop() }
        #expect(try await status == 503)
        gate.open()
        await isFinished.wait()
        #expect(finishedWith.withLock { $0 } == ["/wait 1"])
    }

    @Test("Work that waited goes on on the thread of its connection")
    func sameThread() async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: 1) { _ in
            .later {
                let before = currentThread()
                await gate.wait()
                let between = currentThread()
                await gate.wait()
                let isSame = before == between && between == currentThread()
                return Response(status: 200, body: .text(isSame ? "same" : "another"))
            }
        } _: { server in
            let port = server.port
            async let answer = offThePool {
                let client = try RawClient(port: port)
                client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.answer()?.body
            }
            await gate.arrivals(1)
            gate.open()
            return try await answer
        }
        #expect(outcome.result == "same")
        #expect(outcome.statistics.isClean)
    }

    @Test("Hundreds of requests wait at once and each gets its own answer", arguments: [1, 2])
    func hundreds(threads: Int) async throws {
        let gate = Gate()
        let outcome = try await withServer(threads: threads) { request in
            .later {
                await gate.wait()
                return Response(status: 200, body: .text("\(request.path) \(String(decoding: request.body, as: UTF8.self))"))
            }
        } _: { server in
            let port = server.port
            async let answers = offThePool {
                let clients = try (0..<300).map { _ in try RawClient(port: port) }
                for (number, client) in clients.enumerated() {
                    let body = String(repeating: "\(number) ", count: 20)
                    client.send("POST /\(number) HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
                }
                return clients.map { $0.answer()?.body }
            }
            await gate.arrivals(300)
            gate.open()
            return try await answers
        }
        #expect(outcome.result == (0..<300).map { "/\($0) " + String(repeating: "\($0) ", count: 20) })
        #expect(outcome.statistics.requestsBegun == 300)
        #expect(outcome.statistics.isClean)
    }

    @Test("Handlers that wait for a moment race with their connections' suspension, and none gets lost")
    func race() async throws {
        let outcome = try await withServer { request in
            .later {
                for _ in 0..<(request.body.count % 4) { await Task.yield() }
                return Response(status: 200, body: .text("\(request.body.count)"))
            }
        } _: { server in
            let port = server.port
            return try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        try await offThePool {
                            let client = try RawClient(port: port)
                            return (0..<250).filter { number in
                                let size = number % 17
                                client.send(
                                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(size)\r\n\r\n"
                                        + String(repeating: "x", count: size))
                                return client.answer()?.body == "\(size)"
                            }.count
                        }
                    }
                }
                return try await group.reduce(0, +)
            }
        }
        #expect(outcome.result == 2_000)
        #expect(outcome.statistics.isClean)
    }

    @Test("A client that disappears while its request waits does no harm")
    func clientDisappears() async throws {
        let gate = Gate()
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { request in
            .later {
                await gate.wait()
                return Response(status: 200, body: .text(String(repeating: "x", count: 100_000)))
            }
        } _: { server in
            let port = server.port
            try await offThePool {
                for _ in 0..<20 {
                    let client = try RawClient(port: port)
                    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
                    client.reset()
                }
            }
            let clients = try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST /stays HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
                return Box(client)
            }
            await gate.arrivals(1)
            gate.open()
            return try await offThePool { clients.value.answer()?.status }
        }
        #expect(outcome.result == 200)
        #expect(outcome.statistics.isClean)
        #expect(journal.all.count == Int(outcome.statistics.requestsBegun), "each request is reported once")
    }

    @Test("Stopping with suspended requests answers them 503 and doesn't abort")
    func stopWithSuspended() async throws {
        let gate = Gate()
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { request in
            .later {
                await gate.wait()
                // The request is still whole, although its connection is long gone.
                return Response(status: 200, body: .text(request.path + (request.header("host") ?? "")))
            }
        } _: { server in
            let port = server.port
            async let answers = offThePool {
                let clients = try (0..<20).map { _ in try RawClient(port: port) }
                clients.forEach { $0.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n") }
                return clients.map { $0.answer() }
            }
            await gate.arrivals(20)
            _ = try await offThePool {
                server.stop()
                server.stop()
            }
            return try await answers
        }
        gate.open()
        #expect(outcome.result.map(\.?.status) == Array(repeating: 503, count: 20))
        #expect(outcome.result.allSatisfy { $0?.closes == true })
        #expect(journal.all.map(\.status) == Array(repeating: 503, count: 20))
        #expect(outcome.statistics.isClean)
    }

    @Test(
        "Stopping gives no answer to what may take effect and may not be repeated",
        arguments: [("POST", nil), ("PATCH", nil), ("DELETE", 503)])
    func stopAmid(_ method: String, status: Int?) async throws {
        let gate = Gate()
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { _ in
            .later {
                await gate.wait()
                return Response(status: 201)
            }
        } _: { server in
            let port = server.port
            async let answer = offThePool {
                let client = try RawClient(port: port)
                client.send("\(method) /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
                return client.answer()?.status
            }
            await gate.arrivals(1)
            _ = try await offThePool { server.stop() }
            return try await answer
        }
        gate.open()
        #expect(outcome.result == status)
        #expect(journal.all.map(\.status) == [status ?? 0])
        #expect(outcome.statistics.isClean)
    }

    @Test("A handler that asks learns that its client has closed the connection, or its side of it", arguments: [true, false])
    func abandoned(_ closes: Bool) async throws {
        let gate = Gate()
        let seen = Watched<[Bool]>([])
        let outcome = try await withServer { request in
            guard request.path == "/first" else { return .now(Response(status: 200)) }
            return .later {
                seen.change { $0.append(request.isAbandoned) }
                await gate.wait()
                // The kernel may hand the end over later.
                while !request.isAbandoned { try? await Task.sleep(for: .milliseconds(1)) }
                seen.change { $0.append(request.isAbandoned) }
                return Response(status: 200)
            }
        } _: { server in
            let (port, arrived) = (server.port, DispatchSemaphore(value: 0))
            async let closed: Void = offThePool {
                var client: RawClient? = try RawClient(port: port)
                client?.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
                arrived.wait()
                if closes { client = nil } else { client?.finishSending() }
                gate.open()
                _ = client?.readToEnd()
            }
            await gate.arrivals(1)
            arrived.signal()
            try await closed
            await seen.until { $0.count == 2 }
            return seen.value
        }
        #expect(outcome.result == [false, true])
    }

    @Test("Draining refuses newcomers, answers what is in flight with Connection: close, and says when all is done")
    func drain() async throws {
        let gate = Gate()
        let outcome = try await withServer { request in
            guard request.path == "/wait" else { return .now(Response(status: 200)) }
            return .later {
                await gate.wait()
                return Response(status: 200, body: .constant("done"))
            }
        } _: { server in
            let port = server.port
            let idle = try await offThePool {
                let client = try RawClient(port: port)
                client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                _ = client.answer()
                return Box(client)
            }
            async let waiting = offThePool {
                let client = try RawClient(port: port)
                client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
                return (client.answer(), client.isClosedByServer())
            }
            await gate.arrivals(1)
            let early = try await offThePool { server.drain(within: 0) }
            let newcomer = try await offThePool { (try? RawClient(port: port)) == nil }
            let last = try await offThePool {
                idle.value.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                return idle.value.answer()
            }
            gate.open()
            let late = await server.shutDown(within: 120_000_000_000)
            return try await (early, newcomer, last, waiting, late)
        }
        let (early, newcomer, last, waiting, late) = outcome.result
        #expect(!early, "a request was in flight")
        #expect(newcomer, "the listening socket is closed")
        #expect(last?.status == 200 && last?.closes == true, "an open connection gets its last answer")
        #expect(waiting.0?.body == "done" && waiting.0?.closes == true)
        #expect(waiting.1)
        #expect(late)
        #expect(outcome.statistics.isClean)
    }

    @Test("Requests that the library refuses by itself while the server stops do no harm")
    func refusedWhileStopping() async throws {
        for _ in 0..<20 {
            let outcome = try await withServer { _ in
                .now(Response(status: 200))
            } _: { server in
                let port = server.port
                let clients = try await offThePool { Box(try (0..<150).map { _ in try RawClient(port: port) }) }
                async let sent: Void = offThePool {
                    for _ in 0..<20 { for client in clients.value { client.send("GET / HTTP/9.9\r\n\r\n") } }
                }
                _ = try await offThePool { server.stop() }
                try await sent
            }
            #expect(outcome.statistics.isClean)
        }
    }

    @Test("A server that was never started, or was dropped without a stop, ends quietly")
    func dropped() async throws {
        let port = try await offThePool {
            HTTPServer(handler: { _ in .now(Response(status: 200)) }, finish: finished).stop()
            let server = HTTPServer(handler: { _ in .now(Response(status: 200)) }, finish: finished)
            return try server.start()
        }
        _ = try await offThePool { #expect(throws: RawClient.Broken.self) { try RawClient(port: port) } }
    }

    @Test("A port that is taken, or a host that doesn't exist, is told in words")
    func cannotListen() async throws {
        _ = try await withServer { _ in
            .now(Response(status: 200))
        } _: { server in
            let options = HTTPServerOptions(port: server.port)
            let second = HTTPServer(options: options, handler: { _ in .now(Response(status: 200)) }, finish: finished)
            let error = #expect(throws: SystemError.self) { try second.start() }
            #expect(error?.description.contains("Address already in use") == true)
            let lost = HTTPServer(
                options: HTTPServerOptions(host: "no such host"), handler: { _ in .now(Response(status: 200)) }, finish: finished)
            #expect(throws: SystemError.self) { try lost.start() }
        }
    }
}
