import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import Push

/// A server that shares no code with ours: nghttp2's.
@Suite("Against nghttpd", .endsIfItHangs) struct NghttpdTests {
    static let program = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    @Test(
        "five hundred requests are answered over one connection",
        .enabled(if: program != nil, "nghttpd isn't installed: apt-get install nghttp2-server"))
    func pushes() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "campanile-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let authority = TestAuthority.trusted
        try Data(authority.leafPEM.utf8).write(to: folder.appending(path: "leaf.pem"))
        try Data(authority.keyPEM.utf8).write(to: folder.appending(path: "key.pem"))
        let port = try await Self.freePort()
        let server = try ChildProgram(
            Self.program ?? "",
            [
                "--echo-upload", "-a", "127.0.0.1", "-d", folder.path(), "\(port)",
                folder.appending(path: "key.pem").path(), folder.appending(path: "leaf.pem").path(),
            ])
        defer { server.kill() }
        try await send(to: "https://127.0.0.1:\(port)")
    }

    private func send(to url: String) async throws {
        let network = try PushNetwork(trust: .authorities(pem: TestAuthority.trusted.pem))
        let hand = HandClock()
        let client = HTTP2Client(
            endpoint: try HTTP2Endpoint(url: url), limits: HTTP2Limits(), network: network, world: hand.world)
        // Until the program listens.
        while true {
            if case .success = await client.probe() { break }
            hand.advance(seconds: 60)
            try await Task.sleep(for: .milliseconds(20))
        }
        let made = try await client.inspect { $0.connectionsMade }
        let body = String(repeating: "p", count: 500)
        let pending = (0..<500).map { client.begin("/3/device/\($0)", body) }
        for item in pending {
            let result = await item.value
            #expect(result.status == 200)
            #expect(result.body == body)
        }
        #expect(try await client.inspect { $0.connectionsMade } == made)
        await client.stop()
        await network.shutDown()
    }

    private static func freePort() async throws -> Int {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = channel.localAddress?.port ?? 0
        try await channel.close()
        return port
    }
}
