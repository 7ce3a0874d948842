import CampanileCore
import Foundation
import TestSupport
import Testing

@testable import CampanileServer

/// The protocol of sd_listen_fds(3).
@Suite("Socket activation")
struct SocketActivationTests {
    @Test(
        "one descriptor for this process is number 3; without one, or for another process, there is none",
        arguments: [
            (["LISTEN_PID": "42", "LISTEN_FDS": "1"], 3),
            (["LISTEN_PID": "42", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "campanile.socket"], 3),
            ([:], nil), (["LISTEN_FDS": "1"], nil), (["LISTEN_PID": "42"], nil),
            (["LISTEN_PID": "41", "LISTEN_FDS": "1"], nil), (["LISTEN_PID": "41", "LISTEN_FDS": "many"], nil),
        ] as [([String: String], Int32?)])
    func taken(environment: [String: String], expected: Int32?) throws {
        #expect(try SocketActivation.descriptor(environment, process: 42) == expected)
    }

    @Test(
        "bad numbers and more than one descriptor are refused with a sentence",
        arguments: [
            (["LISTEN_PID": "me", "LISTEN_FDS": "1"], "LISTEN_PID must be the number of a process."),
            (["LISTEN_PID": "", "LISTEN_FDS": "1"], "LISTEN_PID must be the number of a process."),
            (["LISTEN_PID": "0", "LISTEN_FDS": "1"], "LISTEN_PID must be the number of a process."),
            (["LISTEN_PID": "+42", "LISTEN_FDS": "1"], "LISTEN_PID must be the number of a process."),
            (["LISTEN_PID": "42", "LISTEN_FDS": "0"], "LISTEN_FDS must be a whole number of at least 1."),
            (["LISTEN_PID": "42", "LISTEN_FDS": "-1"], "LISTEN_FDS must be a whole number of at least 1."),
            (["LISTEN_PID": "42", "LISTEN_FDS": "1 "], "LISTEN_FDS must be a whole number of at least 1."),
            (["LISTEN_PID": "42", "LISTEN_FDS": "99999999999"], "LISTEN_FDS must be a whole number of at least 1."),
            (
                ["LISTEN_PID": "42", "LISTEN_FDS": "2"],
                "LISTEN_FDS passes 2 descriptors, and the server takes one: the socket unit must have one ListenStream=."
            ),
        ])
    func refused(environment: [String: String], sentence: String) {
        let error = #expect(throws: OperatorError.self) {
            try SocketActivation.descriptor(environment, process: 42)
        }
        #expect(error?.description == sentence)
    }
}

/// A supervisor that opens a socket and hands it down to the program, one process after the other.
@Suite("A socket that is handed down to the program", .endsIfItHangs)
struct HandedDownSocketTests {
    private typealias Running = ProgramTests.Running

    /// A socket on a free port of 127.0.0.1.
    private final class Socket: Sendable {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let port: UInt16

        init(listens: Bool) throws {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let own = descriptor
            let code = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(own, $0, size) | (listens ? listen(own, 16) : 0) | getsockname(own, $0, &size)
                }
            }
            try #require(own >= 0 && code == 0)
            port = UInt16(bigEndian: address.sin_port)
        }

        /// Somebody who comes to it.
        func client() throws -> Int32 {
            let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var patience = timeval(tv_sec: 60, tv_usec: 0)
            setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            address.sin_port = port.bigEndian
            let code = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            try #require(code == 0, "refused: \(errno)")
            return client
        }

        deinit { close(descriptor) }
    }

    private let folder = TemporaryFolder()

    /// The status line of the answer to a request on a connection.
    private func answer(_ client: Int32) -> String {
        let request = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        _ = send(client, request, request.utf8.count, Int32(MSG_NOSIGNAL))
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = recv(client, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)).prefix { $0 != 13 }, as: UTF8.self)
    }

    @Test("the program serves on it, whatever host and port it is told, and who comes after its end is answered by the next one")
    func restart() throws {
        let socket = try Socket(listens: true)
        let arguments = ["serve", "--host", "192.0.2.1", "--port", "1", "--database", folder.database]
        let first = try Running(arguments, handedDown: socket.descriptor)
        let line = try #require(first.line(with: "Campanile listens on"))
        #expect(line.hasSuffix("http://127.0.0.1:\(socket.port)"))
        // The log is written by another thread: before the greeting or after it.
        let warning = "The configured port isn't used"
        #expect(first.lines.contains { $0.contains(warning) } || first.line(with: warning) != nil)
        let early = try socket.client()
        defer { close(early) }
        #expect(answer(early) == "HTTP/1.1 200 OK")
        kill(first.program.id, SIGTERM)
        #expect(first.program.waitUntilEnded() == 0)
        // Nobody serves now, and nobody is refused.
        let between = try socket.client()
        defer { close(between) }
        let second = try Running(arguments, handedDown: socket.descriptor)
        defer { second.program.kill() }
        #expect(second.line(with: "Campanile listens on") != nil)
        #expect(answer(between) == "HTTP/1.1 200 OK")
    }

    @Test("what isn't one listening socket keeps the program from starting, with a sentence")
    func refused() throws {
        let silent = try Socket(listens: false)
        let listening = try Socket(listens: true)
        let file = open("/dev/null", O_RDONLY)
        defer { close(file) }
        let cases: [(Int32, [String: String], String)] = [
            (listening.descriptor, ["LISTEN_FDS": "2"], "Error: LISTEN_FDS passes 2 descriptors, and the server takes one"),
            (silent.descriptor, [:], "Error: The inherited descriptor 3 is a socket that doesn't listen"),
            (file, [:], "Error: The inherited descriptor 3 isn't a socket"),
        ]
        for (descriptor, environment, sentence) in cases {
            let running = try Running(
                ["serve", "--port", "0", "--database", folder.database], environment: environment, handedDown: descriptor)
            #expect(running.line(with: sentence) != nil, "\(running.lines)")
            #expect(running.program.waitUntilEnded() == 1)
        }
    }

    @Test("a second program on the same database is refused as ever, and the socket is left to the first")
    func overlap() throws {
        let socket = try Socket(listens: true)
        let arguments = ["serve", "--database", folder.database]
        let first = try Running(arguments, handedDown: socket.descriptor)
        defer { first.program.kill() }
        #expect(first.line(with: "Campanile listens on") != nil)
        let second = try Running(arguments, handedDown: socket.descriptor)
        #expect(second.line(with: "Another campanile serves the database") != nil)
        #expect(second.program.waitUntilEnded() == 1)
        let client = try socket.client()
        defer { close(client) }
        #expect(answer(client) == "HTTP/1.1 200 OK")
    }
}
