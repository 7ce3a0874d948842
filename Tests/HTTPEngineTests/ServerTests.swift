import Glibc
import HTTPEngine
import Synchronization
import TestSupport
import Testing

/// Answers with the method, the path and the body; `later` paths through a task.
@Sendable private func echo(_ request: Request) -> Answer {
    let response = Response(
        status: 200, contentType: "text/plain",
        body: .text(
            "\(request.method.name) \(request.path) \(String(decoding: request.body, as: UTF8.self))"))
    return request.path == "/later" ? .later { response } : .now(response)
}

@Suite("Server", .serialized)
struct ServerTests {
    @Test("A GET is answered and the connection stays open", arguments: [1, 2])
    func keepAlive(threads: Int) async throws {
        let journal = Journal()
        let outcome = try await withServer(threads: threads, journal: journal, handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                return (0..<3).map { _ in
                    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                    return client.answer()
                }
            }
        }
        #expect(outcome.result.map(\.?.body) == ["GET /x ", "GET /x ", "GET /x "])
        #expect(outcome.result.allSatisfy { $0?.closes == false && $0?.headers["date"] != nil })
        #expect(outcome.statistics.connectionsOpened == 1)
        #expect(outcome.statistics.requestsBegun == 3)
        #expect(outcome.statistics.isClean)
        #expect(journal.all == Array(repeating: .init(method: "GET", path: "/x", pattern: nil, status: 200), count: 3))
    }

    @Test("A POST is answered and the connection stays open", arguments: ["/x", "/later"])
    func keepAliveAfterPost(path: String) async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                return ["one", "two", ""].map { body in
                    client.send("POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
                    return client.answer()?.body
                }
            }
        }
        #expect(outcome.result == ["POST \(path) one", "POST \(path) two", "POST \(path) "])
        #expect(outcome.statistics.connectionsOpened == 1)
    }

    @Test("A request torn into single bytes is the same request")
    func torn() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                for byte
                    in "POST /later?x HTTP/1.1\r\nHost: a\r\nX-Long: \(String(repeating: "v", count: 60))\r\nContent-Length: 4\r\n\r\nbody"
                    .utf8
                {
                    client.send([byte])
                }
                return client.answer()?.body
            }
        }
        #expect(outcome.result == "POST /later body")
    }

    @Test("Pipelined requests are answered in their order, waiting handlers or not")
    func pipelined() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                let requests = (0..<20).map { number in
                    number % 2 == 0
                        ? "GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n"
                        : "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\(number % 10)\n"
                }
                client.send(requests.joined())
                return (0..<20).map { _ in client.answer()?.body }
            }
        }
        #expect(outcome.result == (0..<20).map { $0 % 2 == 0 ? "GET /\($0) " : "POST /later \($0 % 10)\n" })
    }

    @Test("A chunked body arrives whole, its trailers ignored")
    func chunked() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                client.send("3\r\none\r\n004;note=\"x\"\r\n two\r\n0\r\nX-Trailer: y\r\n\r\n")
                let first = client.answer()
                client.send("GET /y HTTP/1.1\r\nHost: a\r\n\r\n")
                return [first?.body, client.answer()?.body]
            }
        }
        #expect(outcome.result == ["POST /x one two", "GET /y "])
    }

    @Test("HEAD has the head of GET with its Content-Length, and no body")
    func head() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n")
                return (client.answer(bodiless: true), client.answer())
            }
        }
        #expect(outcome.result.0?.headers["content-length"] == "8")
        #expect(outcome.result.1?.body == "GET /y ", "the next answer begins right after the head")
    }

    @Test("204 and 304 carry no body", arguments: [204, 304] as [UInt16])
    func bodiless(status: UInt16) async throws {
        let outcome = try await withServer { _ in
            .now(Response(status: status, headers: [.init("ETag", .strongTag(17))], body: .constant("not sent")))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return RawClient.answers(in: client.readToEnd())
        }
        #expect(outcome.result.map(\.status) == [Int(status), Int(status)])
        #expect(outcome.result.first?.headers["etag"] == "\"17\"")
        #expect(outcome.result.first?.headers["content-length"] == (status == 304 ? "8" : nil))
    }

    @Test("Every kind of body arrives as it was given")
    func bodies() async throws {
        let program: StaticString = "program"
        let outcome = try await withServer { request in
            var buffer = ByteBuffer(capacity: 8)
            for number in 0..<50_000 { buffer.append(number) }
            let bodies: [Response.Body] = [
                .empty, .bytes(buffer.finish()), .text("täxt"), .array([0x61, 0]), .constant("literal"),
                .program(ProgramBytes(UnsafeRawBufferPointer(start: program.utf8Start, count: program.utf8CodeUnitCount))),
            ]
            let index = Int(request.query("n") ?? "") ?? 0
            return .now(Response(status: 200, body: bodies[index]))
        } clients: { server in
            let client = try RawClient(port: server.port)
            return (0..<6).map { number in
                client.send("GET /?n=\(number) HTTP/1.1\r\nHost: a\r\n\r\n")
                return client.answer()?.body
            }
        }
        #expect(outcome.result == ["", (0..<50_000).map(String.init).joined(), "täxt", "a\0", "literal", "program"])
    }

    @Test(
        "A header that can't be sent turns the answer into a 500 instead of a crash",
        arguments: ["a\r\nSet-Cookie: b", "", "a\u{0}b"])
    func refusedHeader(value: String) async throws {
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { _ in
            .now(Response(status: 200, headers: [.init("Location", .text(value))]))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            return RawClient.answers(in: client.readToEnd())
        }
        #expect(outcome.result.map(\.status) == [500])
        #expect(outcome.result.first?.headers["set-cookie"] == nil)
        #expect(journal.all.map(\.status) == [500])
    }

    @Test("HTTP/1.0 without a Host is served and closed; with keep-alive it stays open")
    func http10() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                let first = client.answer()?.body
                client.send("GET /b HTTP/1.0\r\n\r\n")
                return ([first, client.answer()?.body], client.isClosedByServer())
            }
        }
        #expect(outcome.result.0 == ["GET /a ", "GET /b "])
        #expect(outcome.result.1)
    }

    @Test("Expect: 100-continue is answered before the body is asked for")
    func expectContinue() async throws {
        let outcome = try await withServer(handler: echo) { server in
            let port = server.port
            return try await offThePool {
                let client = try RawClient(port: port)
                client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab")
                return client.answer()?.body
            }
        }
        #expect(outcome.result == "POST /x ab")
    }

    @Test("A request says which thread serves it: each thread has one number, and the numbers are fewer than the threads")
    func workers() async throws {
        let seen = Mutex<[Int: Set<pthread_t>]>([:])
        let handler: Handler = { request in
            seen.withLock { _ = $0[request.worker, default: []].insert(pthread_self()) }
            return echo(request)
        }
        _ = try await withServer(threads: 3, handler: handler) { server in
            let port = server.port
            try await offThePool {
                let clients = try (0..<9).map { _ in try RawClient(port: port) }
                for client in clients + clients {
                    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                    _ = client.answer()
                }
            }
        }
        let threads = seen.withLock { $0 }
        #expect((1...3).contains(threads.count) && threads.keys.sorted() == Array(0..<threads.count))
        #expect(threads.values.allSatisfy { $0.count == 1 } && Set(threads.values.flatMap(\.self)).count == threads.count)
    }

    @Test("Requests have names that differ, and a request outlives its connection")
    func requestOutlives() async throws {
        let kept = Kept()
        let outcome = try await withServer { request in
            kept.add(request)
            return .now(Response(status: 200, body: .text(request.id)))
        } clients: { server in
            let client = try RawClient(port: server.port)
            return (0..<2).map { number in
                client.send("POST /\(number) HTTP/1.1\r\nHost: a\r\nX-N: \(number)\r\nContent-Length: 1\r\n\r\n\(number)")
                return client.answer()?.body
            }
        }
        let requests = kept.all
        #expect(requests.map(\.path) == ["/0", "/1"])
        #expect(requests.map { $0.header("x-n") } == ["0", "1"])
        #expect(requests.map { [UInt8]($0.body) } == [[0x30], [0x31]])
        #expect(requests.map(\.id) == outcome.result)
        #expect(Set(requests.map(\.id)).count == 2)
    }
}
