import Foundation
import TestSupport
import Testing

@testable import CampanileClient

/// URLSession itself, against sockets that say what no server should.
@Suite("The transport, over a socket", .serialized, .endsIfItHangs)
struct TransportTests {
    private func call(_ server: SocketServer, timeout: TimeInterval = 30) -> HTTPCall {
        HTTPCall(url: server.url, headers: ["Authorization": "Bearer jwt"], timeout: timeout)
    }

    @Test("a call ends when its task is cancelled: before it, in the middle of its beginning, and while no answer comes")
    func cancellation() async throws {
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.waitForEnd()
        }
        let transport = URLSessionTransport()
        let call = call(server)
        let ended = Watched<[String]>([])
        let rounds = 2_000
        for round in 0..<rounds {
            let task = Task {
                if round.isMultiple(of: 2) { withUnsafeCurrentTask { $0?.cancel() } }
                do {
                    _ = try await transport.send(call)
                    ended.change { $0.append("an answer") }
                } catch {
                    let end = ClientFailure(error).map { "\($0)" } ?? "cancelled"
                    ended.change { $0.append(end) }
                }
            }
            for _ in 0..<(round % 7) { await Task.yield() }
            task.cancel()
        }
        // Not by awaiting the tasks: one that hangs would hang the test.
        await ended.until { $0.count == rounds }
        #expect(ended.value.count == rounds)
        #expect(Set(ended.value) == ["cancelled"])
    }

    @Test("a reader that goes away ends its connection")
    func readerGone() async throws {
        let (gone, tell) = AsyncStream.makeStream(of: Void.self)
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
            connection.waitForEnd()
            tell.yield()
        }
        let transport = URLSessionTransport()
        var stream: HTTPStream? = try await transport.open(call(server))
        for try await piece in try #require(stream).body {
            #expect(piece == Data(": hello\n\n".utf8))
            break
        }
        stream = nil
        for await _ in gone { break }
    }

    @Test(
        "a redirection is an answer and isn't followed: the token is for this server alone",
        arguments: [301, 302, 303, 307, 308])
    func redirection(_ status: Int) async throws {
        let other = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
        let address = other.url.absoluteString
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 \(status) Elsewhere\r\nLocation: \(address)\r\nContent-Length: 0\r\n\r\n")
        }
        let answer = try await URLSessionTransport().send(call(server))
        #expect(answer.status == status && answer.headers["location"] == address)
        #expect(other.connections == 0)
    }

    @Test("an answer of 8 MiB is taken whole, and a byte more is refused", arguments: [0, 1])
    func size(_ more: Int) async throws {
        let bytes = 8 << 20 + more
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 200 OK\r\nContent-Length: \(bytes)\r\n\r\n")
            connection.say([UInt8](repeating: 0x61, count: bytes))
        }
        let transport = URLSessionTransport()
        if more == 0 {
            #expect(try await transport.send(call(server)).body.count == bytes)
        } else {
            let error = await #expect(throws: URLError.self) { try await transport.send(call(server)) }
            #expect(error?.code == .dataLengthExceedsMaximum)
        }
    }

    @Test("an answer that breaks off is no answer")
    func cut() async throws {
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        }
        await #expect(throws: URLError.self) { try await URLSessionTransport().send(call(server)) }
    }

    @Test(
        "a server that says nothing for longer than the call waits is a timeout, before the head and in the body",
        arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"])
    func timeout(_ said: String) async throws {
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say(said)
            connection.waitForEnd()
        }
        let error = await #expect(throws: URLError.self) { try await URLSessionTransport().send(call(server, timeout: 1)) }
        #expect(error?.code == .timedOut)
    }

    @Test("a reader that doesn't keep up loses the connection, and nothing out of the middle")
    func slowReader() async throws {
        let (gone, tell) = AsyncStream.makeStream(of: Void.self)
        let server = try SocketServer { connection in
            _ = connection.head()
            connection.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            // Lines of 32 KiB, each of which begins with its number. No buffer of a system holds them all.
            for number in 0..<32_768 {
                let line = "\(number) " + String(repeating: ".", count: 32_700) + "\n"
                guard connection.say(line) else { break }
            }
            tell.finish()
        }
        let stream = try await URLSessionTransport().open(call(server))
        for await _ in gone {}
        var text = Data()
        let error = await #expect(throws: URLError.self) { for try await piece in stream.body { text += piece } }
        // Which a stream takes for a reason to come back.
        #expect(error?.code == .networkConnectionLost)
        let lines = text.split(separator: 0x0A).dropLast()
        let numbers = lines.map { Int(String(decoding: $0.prefix { $0 != 0x20 }, as: UTF8.self)) }
        #expect(!numbers.isEmpty && numbers == Array(0..<numbers.count))
    }
}
