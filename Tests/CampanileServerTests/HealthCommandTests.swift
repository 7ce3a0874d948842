import Foundation
import Glibc
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// `campanile health`, as a container's HEALTHCHECK runs it.
@Suite("The health command", .endsIfItHangs)
struct HealthCommandTests {
    /// Somebody on a port who says the same to everyone who asks, or nothing.
    private final class Listener: Sendable {
        let port: UInt16
        private let descriptor: Int32

        /// - Parameter answer: what is written to the first who connects, then its end; nil: nothing, and no end.
        init(_ answer: String?) throws {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let code = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, size) | listen(descriptor, 4) | getsockname(descriptor, $0, &size)
                }
            }
            try #require(descriptor >= 0 && code == 0)
            self.descriptor = descriptor
            port = UInt16(bigEndian: address.sin_port)
            guard let answer else { return }
            Thread.detachNewThread {
                let client = accept(descriptor, nil, nil)
                var request = [UInt8](repeating: 0, count: 4_096)
                _ = recv(client, &request, request.count, 0)
                _ = send(client, answer, answer.utf8.count, Int32(MSG_NOSIGNAL))
                close(client)
            }
        }

        deinit { close(descriptor) }
    }

    /// Returns what the check says. It waits in a thread of its own: the server under test needs the tests' threads.
    private func check(
        _ host: String = "127.0.0.1", port: UInt16, isReadiness: Bool = false, token: Secret? = nil, seconds: Int = 30
    ) async -> String {
        await inThread {
            var configuration = Configuration()
            configuration.host = host
            configuration.port = Int(port)
            configuration.metrics.token = token
            do {
                return try HealthCheck(configuration, isReadiness: isReadiness, seconds: seconds).run()
            } catch {
                return "\(error)"
            }
        }
    }

    private func inThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: work()) }
        }
    }

    @Test(
        "a server that answers is healthy and ready, also where it listens on every address",
        arguments: [
            "127.0.0.1", "0.0.0.0", "::",
        ])
    func healthy(host: String) async throws {
        let server = try await RunningServer { $0.host = host }
        let name = host == "::" ? "[::]" : host
        let port = server.app.port
        #expect(await check(host, port: port) == "http://\(name):\(port)/healthz answered 200.")
        #expect(await check(host, port: port, isReadiness: true) == "http://\(name):\(port)/readyz answered 200.")
        await server.app.stop()
    }

    @Test("where nobody listens, where nobody answers and where a stranger answers, it fails with a sentence")
    func unhealthy() async throws {
        let server = try await RunningServer()
        let port = server.app.port
        await server.app.stop()
        #expect(await check(port: port) == "http://127.0.0.1:\(port)/healthz can't be reached: Connection refused.")

        let silent = try Listener(nil)
        #expect(await check(port: silent.port, seconds: 0) == "http://127.0.0.1:\(silent.port)/healthz didn't answer in time.")

        for strange in ["", "220 mail ESMTP\r\n", "HTTP/1.1\r\n\r\n"] {
            let stranger = try Listener(strange)
            let sentence = "http://127.0.0.1:\(stranger.port)/healthz didn't answer as an HTTP server does."
            #expect(await check(port: stranger.port) == sentence, "\(strange)")
        }
    }

    @Test(
        "a server that isn't ready is quoted with its reasons, to who has the token; others are told how many, and where to look")
    func unreadyServer() async throws {
        let token = Secret("a-token-for-the-metrics")
        let server = try await RunningServer { $0.metrics.token = token }
        let port = server.app.port
        try DisplacedFileTests.Deed.moved.do(server.folder)
        #expect(throws: (any Error).self) { try server.app.database.pollForeignChange() }
        let start = "http://127.0.0.1:\(port)/readyz answered 503."
        #expect(
            await check(port: port, isReadiness: true, token: token)
                == "\(start) The database can't be written: its file was removed or moved away.")
        #expect(
            await check(port: port, isReadiness: true)
                == "\(start) It has 1 reason: see its log, or set metrics.token to see it here.")
        #expect(
            await check(port: port, isReadiness: true, token: Secret("another-token-of-old"))
                == "\(start) It has 1 reason: see its log. It doesn't know this configuration's metrics.token.")
        #expect(await check(port: port, token: token) == "http://127.0.0.1:\(port)/healthz answered 200.")
        await server.stop()
    }

    @Test("a server that isn't ready for several reasons is quoted with all")
    func unready() async throws {
        let body =
            #"{"status":"unready","reason_count":2,"reasons":["The server is stopping.","The disk is full."],"details":[]}"#
        let unready = try Listener("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\r\n\(body)")
        let sentence = "http://127.0.0.1:\(unready.port)/readyz answered 503. The server is stopping. The disk is full."
        #expect(await check(port: unready.port, isReadiness: true) == sentence)
        let bare = try Listener("HTTP/1.1 502 Bad Gateway\r\n\r\n<html>")
        #expect(await check(port: bare.port) == "http://127.0.0.1:\(bare.port)/healthz answered 502.")
    }

    @Test("the program finds the server by the settings that the server has, and its exit status is the verdict")
    func program() async throws {
        let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "campanile").path()
        func run(_ arguments: [String], _ environment: [String: String] = [:]) async -> Int32? {
            await inThread { try? ChildProgram(program, ["health"] + arguments, environment: environment).waitUntilEnded() }
        }
        let server = try await RunningServer()
        let port = "\(server.app.port)"
        // It waits for five seconds, in which a server on a busy machine may not have answered.
        func runPatiently(_ arguments: [String], _ environment: [String: String] = [:]) async -> Int32? {
            for _ in 0..<4 where await run(arguments, environment) == 0 { return 0 }
            return await run(arguments, environment)
        }
        #expect(await runPatiently([], ["CAMPANILE_PORT": port]) == 0)
        #expect(await runPatiently(["--port", port, "--ready"]) == 0)
        await server.app.stop()
        #expect(await run(["--port", port]) == 1)
        #expect(await run(["--port", "0"]) == 1)
    }
}
