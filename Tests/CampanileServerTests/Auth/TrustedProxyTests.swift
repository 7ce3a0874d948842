import CampanileCore
import Foundation
import HTTPEngine
import Testing

@testable import CampanileServer

@Suite struct TrustedProxyTests {
    /// Returns what the server takes for the client where 10.0.0.0/8 and ::1 are trusted.
    static func reading(_ peer: String, _ lines: [String]) throws -> String? {
        let proxies = TrustedProxies([
            try #require(IPNetwork.parse("10.0.0.0/8")).network, try #require(IPNetwork.parse("::1")).network,
        ])
        return proxies.clientAddress(peer: IPAddress(peer.utf8)) { lines }?.description
    }

    @Test("what a stranger says of itself counts for nothing", arguments: ["203.0.113.7", "2001:db8::7", "::ffff:203.0.113.7"])
    func stranger(_ peer: String) throws {
        let own = IPAddress(peer.utf8)?.description
        for lines in [[], ["198.51.100.1"], ["10.0.0.1"], ["127.0.0.1", "::1"], ["198.51.100.1, 10.0.0.1"]] {
            #expect(try Self.reading(peer, lines) == own)
        }
    }

    @Test(
        "of a trusted proxy the list is read from the right, up to the first that isn't trusted",
        arguments: [
            ([], "10.0.0.1"), (["203.0.113.7"], "203.0.113.7"), (["2001:db8::7"], "2001:db8::7"),
            // What the client had written there before stands on the left.
            (["198.51.100.1, 203.0.113.7"], "203.0.113.7"), (["127.0.0.1,10.0.0.9,203.0.113.7"], "203.0.113.7"),
            // Two proxies, and one that is reached by IPv6.
            (["198.51.100.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7"), (["203.0.113.7, ::1, ::ffff:10.0.0.2"], "203.0.113.7"),
            // Several lines are one list.
            (["198.51.100.1", "203.0.113.7", "10.0.0.2"], "203.0.113.7"), (["203.0.113.7", "10.0.0.2, 10.0.0.3"], "203.0.113.7"),
            // A client inside: all are trusted, so it is the one that the outermost of them names.
            (["10.9.9.9, 10.0.0.2"], "10.9.9.9"),
            (["::ffff:203.0.113.7"], "203.0.113.7"),
        ])
    func walk(_ lines: [String], _ expected: String) throws {
        #expect(try Self.reading("10.0.0.1", lines) == expected)
        #expect(try Self.reading("::ffff:10.0.0.1", lines) == expected)
    }

    @Test(
        "an entry may have a port, brackets and space around it, and an empty one is none",
        arguments: [
            "203.0.113.7:443", "203.0.113.7:1", " 203.0.113.7\t", "203.0.113.7,", ",, 203.0.113.7 , ,",
            "[::ffff:203.0.113.7]:65535",
        ])
    func forms(_ line: String) throws {
        #expect(try Self.reading("10.0.0.1", [line]) == "203.0.113.7")
        #expect(try Self.reading("10.0.0.1", ["[2001:db8::7]"]) == "2001:db8::7")
        #expect(try Self.reading("10.0.0.1", ["[2001:db8::7]:443"]) == "2001:db8::7")
    }

    @Test(
        "what is no address ends the list: who wrote the entries before it can't be named",
        arguments: [
            "unknown", "_hidden", "203.0.113.7:", "203.0.113.7:port", "203.0.113.7:123456", "203.0.113.256", "[2001:db8::7",
            "2001:db8::7]",
            "[2001:db8::7]x", "[2001:db8::7]443", "\"203.0.113.7\"", "203.0.113.7 203.0.113.8", "for=203.0.113.7",
            "203.0.113.7/32", "-", "\u{FFFD}",
        ])
    func malformed(_ entry: String) throws {
        #expect(try Self.reading("10.0.0.1", [entry]) == "10.0.0.1")
        #expect(try Self.reading("10.0.0.1", ["198.51.100.1, \(entry)"]) == "10.0.0.1")
        #expect(try Self.reading("10.0.0.1", ["198.51.100.1", "\(entry), 10.0.0.2"]) == "10.0.0.2")
        #expect(try Self.reading("10.0.0.1", ["198.51.100.1, \(entry), 203.0.113.7"]) == "203.0.113.7")
    }

    @Test(
        "the scheme is what the proxies say with one voice",
        arguments: [
            ([], nil), (["https"], .https), (["http"], .http), (["HTTPS"], .https), (["wss"], .https), (["ws"], .http),
            (["https, https"], .https), (["https", "https"], .https), ([" https ,"], .https),
            // One of them was perhaps the client.
            (["https, http"], nil), (["http", "https"], nil), (["ftp"], nil), (["https, ftp"], nil), ([""], nil),
        ] as [([String], WebScheme?)])
    func scheme(_ lines: [String], _ expected: WebScheme?) {
        #expect(TrustedProxies.scheme(lines) == expected)
    }

    // MARK: - On a socket

    /// Whom a server trusts that is called from 127.0.0.1.
    enum Trust: CaseIterable {
        case nobody, others, us

        var networks: [IPNetwork] {
            get throws {
                switch self {
                case .nobody: []
                case .others: [try #require(IPNetwork.parse("10.0.0.0/8")).network]
                case .us: [try #require(IPNetwork.parse("127.0.0.0/8")).network]
                }
            }
        }
    }

    /// The lines of requests in the log of a server.
    private static func log(
        _ format: LogSink.Format, _ trust: Trust, _ body: (RunningServer) async throws -> Void
    ) async throws -> [String] {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/log")
        try Data().write(to: file)
        let handle = try FileHandle(forWritingTo: file)
        let networks = try trust.networks
        let sink = LogSink(descriptor: handle.fileDescriptor, format: format)
        let server = try await RunningServer(folder: folder, sink: sink) { $0.trustedProxies = networks }
        try await stopping(server, after: body)
        try handle.close()
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
    }

    @Test(
        "a request's line of the log has the client's address, which nobody can choose for itself",
        arguments: [
            (Trust.nobody, "127.0.0.1"), (.others, "127.0.0.1"), (.us, "203.0.113.7"),
        ])
    func logged(_ trust: Trust, _ expected: String) async throws {
        let lines = try await Self.log(.json, trust) { server in
            let fields = [
                "X-Forwarded-For": "198.51.100.1, 203.0.113.7", "Forwarded": "for=198.51.100.2", "X-Real-IP": "198.51.100.3",
            ]
            _ = try await server.client.get("/healthz", headers: fields)
            _ = try await server.client.get("/nowhere", headers: fields)
        }
        #expect(lines.count == 2)
        for line in lines { #expect(try JSONValue(parsing: Array(line.utf8))["client_address"]?.string == expected) }
    }

    @Test("the log for people has it, too")
    func loggedText() async throws {
        let lines = try await Self.log(.text, .nobody) { server in
            _ = try await server.client.get("/healthz", headers: ["X-Request-Id": "one"])
        }
        #expect(lines.count == 1)
        #expect(lines.first?.hasSuffix(" ms 127.0.0.1 one") == true, "\(lines)")
    }

    @Test("X-Forwarded-Proto counts if a trusted proxy says it, and from nobody else", arguments: Trust.allCases)
    func forwardedProto(_ trust: Trust) async throws {
        let networks = try trust.networks
        try await withServer({
            $0.streams.cookie = "session_token"
            $0.trustedProxies = networks
        }) { server in
            let cookie = "session_token=\(try await server.user().dropFirst("Bearer ".count))"
            for (origin, told) in [("http", "https"), ("https", "http"), ("http", "http"), ("https", "https")] {
                let answer = try await server.client.send(
                    "HEAD", "/badge/stream",
                    headers: [
                        "Cookie": cookie, "Origin": "\(origin)://127.0.0.1", "X-Forwarded-Proto": told,
                    ])
                #expect(answer.status == (trust == .us && origin != told ? 403 : 200), "\(origin), \(told)")
            }
            // Told nothing: either.
            for origin in ["http", "https"] {
                let headers = ["Cookie": cookie, "Origin": "\(origin)://127.0.0.1"]
                #expect(try await server.client.send("HEAD", "/badge/stream", headers: headers).status == 200)
            }
            // No word of any proxy makes a foreign page one of our own.
            let foreign = [
                "Cookie": cookie, "Origin": "https://evil.example", "X-Forwarded-Proto": "https",
                "X-Forwarded-Host": "evil.example",
            ]
            #expect(try await server.client.send("HEAD", "/badge/stream", headers: foreign).status == 403)
        }
    }
}
