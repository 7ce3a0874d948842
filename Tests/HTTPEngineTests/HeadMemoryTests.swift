import HTTPEngine
import Testing

/// libmicrohttpd keeps a request's head, a table of its fields and the head of the answer in one piece of memory for each
/// connection. Whatever a client fills it with, a request within the limits is served, and any other has one answer.
@Suite("The memory for a head", .serialized)
struct HeadMemoryTests {
    private static func get(_ fields: String, target: String = "/") -> String {
        "GET \(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
    }

    @Test(
        "As many cookies as the header section holds are served, pipelined and on a connection that is kept",
        arguments: [(1, "a=1"), (328, "a=1"), (1_000, "name=value"), (4_000, "a=1"), (8_150, "a"), (16_300, "")])
    func cookies(count: Int, pair: String) async throws {
        let cookies = Array(repeating: pair, count: count).joined(separator: ";")
        let request = Self.get("Cookie: \(cookies)\r\n")
        let outcome = try await withServer { request in
            .now(Response(status: 200, body: .text(request.header("cookie") ?? "none")))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send(request + request)
            let pipelined = [client.answer(), client.answer()]
            client.send(Self.get("Cookie: last\r\n"))
            return (pipelined + [client.answer()]).map { $0.map { ($0.status, $0.body) } ?? (0, "closed") }
        }
        #expect(outcome.result.map(\.0) == [200, 200, 200])
        #expect(outcome.result.map { $0.1 == cookies } == [true, true, false])
        #expect(outcome.result.last?.1 == "last")
        #expect(outcome.statistics.isClean)
    }

    @Test("Cookies in several fields, and in letters of either case, are all there")
    func severalCookieFields() async throws {
        let many = Array(repeating: "a=1", count: 1_000).joined(separator: ";")
        let request = Self.get("cookie: \(many)\r\nCOOKIE: \(many)\r\nX: y\r\nCookie: \(many)\r\n")
        let outcome = try await withServer { request in
            .now(Response(status: 200, body: .text(request.headers("cookie").map { "\($0.utf8.count)" }.joined(separator: " "))))
        } clients: { server in
            let client = try RawClient(port: server.port)
            client.send(request)
            return client.answer()?.body
        }
        #expect(outcome.result == "3999 3999 3999")
    }

    /// Requests that come ever nearer to what the memory holds, and go beyond it.
    struct Shape: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let sizes: StrideThrough<Int>
        /// Bytes of the memory that one size takes more than the one before.
        let step: Int
        let make: @Sendable (Int) -> String

        init(_ name: String, _ sizes: StrideThrough<Int>, step: Int, _ make: @escaping @Sendable (Int) -> String) {
            testDescription = name
            self.sizes = sizes
            self.step = step
            self.make = make
        }

        private static func chunked(_ trailers: String) -> String {
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\(trailers)\r\n"
        }

        static let all = [
            Shape("fields", stride(from: 62, through: 460, by: 1), step: 70) {
                get(String(repeating: "X: y\r\n", count: $0))
            },
            Shape("short fields", stride(from: 360, through: 420, by: 1), step: 68) {
                get(String(repeating: "X:\r\n", count: $0))
            },
            Shape("a long field", stride(from: 25_800, through: 26_700, by: 12), step: 12) {
                get("X: \(String(repeating: "y", count: $0))\r\n")
            },
            Shape("a long target", stride(from: 25_800, through: 26_500, by: 12), step: 12) {
                get("", target: "/" + String(repeating: "x", count: $0))
            },
            Shape("a long query", stride(from: 25_800, through: 26_500, by: 12), step: 12) {
                get("", target: "/?" + String(repeating: "&", count: $0))
            },
            Shape("cookies", stride(from: 8_100, through: 13_300, by: 41), step: 82) {
                get("Cookie: \(Array(repeating: "a", count: $0).joined(separator: ";"))\r\n")
            },
            Shape("trailers", stride(from: 58, through: 460, by: 1), step: 70) {
                chunked(String(repeating: "X: y\r\n", count: $0))
            },
            Shape("a long trailer", stride(from: 25_600, through: 26_600, by: 12), step: 12) {
                chunked("X: \(String(repeating: "y", count: $0))\r\n")
            },
        ]
    }

    @Test(
        "Whatever is too much of a head or a trailer section, there is one answer, and one line in the log",
        arguments: Shape.all)
    func oneAnswer(shape: Shape) async throws {
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { _ in
            .now(Response(status: 200))
        } clients: { server in
            try shape.sizes.map { size in
                let client = try RawClient(port: server.port)
                client.send(shape.make(size))
                client.finishSending()
                let received = String(decoding: client.readToEnd(sweeping: server), as: UTF8.self)
                return (size: size, heads: received.split(separator: "HTTP/1.1 ").map { Int($0.prefix(3)) ?? 0 })
            }
        }
        let answered = outcome.result
        #expect(answered.first { $0.heads.isEmpty } == nil, "the first size without an answer")
        #expect(answered.first { Set($0.heads).count > 1 || $0.heads.count > 2 } == nil, "the first size with several answers")
        #expect(answered.first { !$0.heads.allSatisfy([200, 414, 431].contains) } == nil, "the first with another status")
        // A known gap: the field that hides the cookies takes 80 bytes at the end of the head, and where less is left the
        // library sends its refusal's head twice. No head within the limits comes near.
        let twice = answered.filter { $0.heads.count == 2 }.count
        #expect(twice <= 80 / shape.step + 1, "how many sizes get the head of their answer twice")
        #expect(journal.all.map(\.status) == answered.compactMap(\.heads.first))
        #expect(outcome.statistics.isClean)
    }

    @Test("Trailers count with the header fields: as many as allowed are served, one more is 431 before the handler")
    func trailerCount() async throws {
        let limits = Limits()
        let journal = Journal()
        let outcome = try await withServer(journal: journal) { _ in
            .now(Response(status: 200, body: .constant("handled")))
        } clients: { server in
            try [0, 1].map { more in
                let trailers = String(repeating: "X: y\r\n", count: limits.headerCount - 2 + more)
                let client = try RawClient(port: server.port)
                client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\(trailers)\r\n")
                return client.answer()?.body
            }
        }
        #expect(outcome.result == ["handled", "engine: headersTooLarge"])
        // An answer is noted after it is sent, and the two connections have threads of their own.
        #expect(journal.all.map(\.status).sorted() == [200, 431])
    }

    /// Longer than the library's buffer is at first, so that it comes in parts whatever the network does.
    @Test("A trailer that arrives in parts is as good as one that arrives whole")
    func trailerInParts() async throws {
        let outcome = try await withServer { request in
            .now(Response(status: 200, body: .text(String(decoding: request.body, as: UTF8.self))))
        } clients: { server in
            let client = try RawClient(port: server.port)
            let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"
            client.send("\(head)X: \(String(repeating: "y", count: 14_000))\r\nZ: z\r\n\r\n")
            return client.answer()?.body
        }
        #expect(outcome.result == "hi")
    }

    @Test("A refusal is a whole answer: a date, a length, the end of the connection, and no body for HEAD")
    func refusal() async throws {
        let outcome = try await withServer { _ in
            .now(Response(status: 200))
        } clients: { server in
            try ["GET", "HEAD"].map { method in
                let client = try RawClient(port: server.port)
                client.send("\(method) / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
                return String(decoding: client.readToEnd(), as: UTF8.self)
            }
        }
        let sentence = "engine: There is more than one Host header."
        #expect(outcome.result.map { $0.hasSuffix("\r\n\r\n" + sentence) } == [true, false])
        #expect(outcome.result.map { $0.hasSuffix("\r\n\r\n") } == [false, true])
        for answer in outcome.result {
            let lines = answer.split(separator: "\r\n")
            #expect(lines.first == "HTTP/1.1 400 Bad Request")
            #expect(lines.contains("Content-Type: application/problem+json"))
            #expect(lines.contains("Connection: close"))
            #expect(lines.contains("Content-Length: \(sentence.utf8.count)"))
            let date = #/Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/#
            #expect(lines.contains { $0.wholeMatch(of: date) != nil })
        }
    }
}
