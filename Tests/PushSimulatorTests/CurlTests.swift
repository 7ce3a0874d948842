import Foundation
import PushSimulator
import TestSupport
import Testing

/// A stranger to all code of ours: curl with nghttp2 and OpenSSL.
@Suite struct CurlTests {
    private static let path = "/usr/bin/curl"
    private static let version = try? run(["--version"])
    static let isThere = version != nil
    static let speaksHTTP2 = version?.contains("HTTP2") ?? false

    static func run(_ arguments: [String]) throws -> String {
        try ChildProgram.output(of: path, arguments)
    }

    @Test(
        "curl pushes over HTTP/2, verifies the certificate, and sends a body longer than a window",
        .enabled(if: speaksHTTP2))
    func curl() async throws {
        try await withSimulator { fixture in
            let folder = FileManager.default.temporaryDirectory.appending(path: "curl-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let ca = folder.appending(path: "ca.pem")
            try Data(fixture.simulator.caPEM.utf8).write(to: ca)
            let long = folder.appending(path: "long")
            try Data(repeating: UInt8(ascii: "x"), count: 900_000).write(to: long)
            let bearer = try fixture.bearer()
            func push(_ host: String, _ data: String) async throws -> String {
                let arguments = [
                    "--silent", "--show-error", "--http2", "--max-time", "120", "--cacert", ca.path(),
                    "--header", "authorization: \(bearer)", "--header", "apns-push-type: alert",
                    "--header", "apns-topic: \(fixture.simulator.credentials.topic)", "--data-binary", data,
                    "--write-out", "%{http_version} %{http_code}",
                    "https://\(host):\(fixture.simulator.port)/3/device/\(Fixture.token)",
                ]
                return try await blocking { try Self.run(arguments) }
            }
            #expect(try await push("127.0.0.1", #"{"aps":{"badge":6}}"#) == "2 200")
            #expect(try await push("localhost", #"{"aps":{"badge":7}}"#) == "2 200")
            #expect(try await push("127.0.0.1", "@\(long.path())") == #"{"reason":"PayloadTooLarge"}2 413"#)
            #expect(fixture.simulator.device(Fixture.token)?.badge == 7)
        }
    }
}
