import Glibc
import HTTPEngine
import TestSupport
import Testing

@Suite("IP addresses and networks")
struct IPAddressTests {
    static func address(_ text: String) -> IPAddress? { IPAddress(text.utf8) }

    @Test(
        "An address is written in its one form",
        arguments: [
            ("0.0.0.0", "0.0.0.0"), ("127.0.0.1", "127.0.0.1"), ("255.255.255.255", "255.255.255.255"),
            ("10.20.100.9", "10.20.100.9"),
            ("::", "::"), ("::1", "::1"), ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"), ("fe80::1", "fe80::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"), ("::FFFF:C000:0201", "192.0.2.1"), ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"),
            ("2001:db8:1111:2222:3333:4444:255.255.255.255", "2001:db8:1111:2222:3333:4444:ffff:ffff"),
        ])
    func forms(_ text: String, _ written: String) {
        #expect(Self.address(text)?.description == written)
        #expect(Self.address(text) == Self.address(written))
    }

    @Test(
        "What is no address is none",
        arguments: [
            "", " ", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", "1.2.3.4\0", "1.2.3.4:80", "[::1]", "::1%lo",
            ":::", "unknown",
            "localhost", "0x7f.0.0.1", "2130706433", "::ffff:1.2.3", "１.２.３.４", "1111:2222:3333:4444:5555:6666:7777:8888:9999",
            String(repeating: "1", count: 5_000),
        ])
    func malformed(_ text: String) {
        #expect(Self.address(text) == nil)
    }

    @Test(
        "A network holds what begins with its bits, and nothing else",
        arguments: [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"], ["9.255.255.255", "11.0.0.0", "::a00:1", "::"]),
            ("192.0.2.129", ["192.0.2.129", "::ffff:192.0.2.129"], ["192.0.2.128", "192.0.2.130"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.128"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::1", "2001:db8::1"]),
            ("::/0", ["::", "::1", "2001:db8::1", "ffff::"], ["1.2.3.4", "::ffff:1.2.3.4"]),
            ("::1", ["::1"], ["::", "::2", "0.0.0.1", "127.0.0.1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"], ["2001:db7:ffff::", "2001:db9::"]),
            ("2001:db8::/64", ["2001:db8::ffff:ffff:ffff:ffff"], ["2001:db8:0:1::"]),
            ("2001:db8::/65", ["2001:db8::7fff:ffff:ffff:ffff"], ["2001:db8::8000:0:0:0"]),
            ("2001:db8::/127", ["2001:db8::", "2001:db8::1"], ["2001:db8::2"]),
            ("::ffff:10.0.0.0/104", ["10.1.2.3"], ["11.1.2.3", "::a01:203"]),
        ] as [(String, [String], [String])])
    func membership(_ text: String, _ inside: [String], _ outside: [String]) throws {
        let network = try #require(IPNetwork.parse(text)).network
        for other in inside { #expect(network.contains(try #require(Self.address(other))), "\(other)") }
        for other in outside { #expect(!network.contains(try #require(Self.address(other))), "\(other)") }
    }

    @Test("Of an address with more bits than its prefix it is said which network holds it")
    func hostBits() throws {
        let (network, address) = try #require(IPNetwork.parse("10.1.2.3/8"))
        #expect(network.description == "10.0.0.0/8")
        #expect(address == Self.address("10.1.2.3") && network.address == Self.address("10.0.0.0"))
        #expect(IPNetwork.parse("2001:db8::/32")?.network.description == "2001:db8::/32")
    }

    @Test("A request knows where its connection came from, also the next one on it")
    func peer() async throws {
        #expect(try await Self.peers("127.0.0.1", isIPv6: false) == ["127.0.0.1", "127.0.0.1"])
    }

    @Test(
        "Who listens on IPv6 knows both kinds of clients", .enabled(if: hasIPv6),
        arguments: [
            ("::1", true, "::1"), ("::", true, "::1"), ("::", false, "127.0.0.1"),
        ])
    func peer6(_ host: String, _ isIPv6: Bool, _ expected: String) async throws {
        #expect(try await Self.peers(host, isIPv6: isIPv6) == [expected, expected])
    }

    private static func echo(_ host: String) -> HTTPServer {
        HTTPServer(
            options: HTTPServerOptions(host: host),
            handler: { request in
                let text = request.peerAddress?.description ?? "none"
                return .now(Response(status: 200, contentType: "text/plain", body: .array(Array(text.utf8))))
            },
            finish: finished)
    }

    private static let hasIPv6: Bool = {
        let server = echo("::1")
        defer { server.stop() }
        return (try? server.start()) != nil
    }()

    /// Returns what a server knows of a client that asks twice.
    private static func peers(_ host: String, isIPv6: Bool) async throws -> [String?] {
        let server = echo(host)
        defer { server.stop() }
        let port = try server.start()
        return try await offThePool {
            let client = try RawClient(port: port, isIPv6: isIPv6)
            let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            client.send(request + request)
            return [client.answer()?.body, client.answer()?.body]
        }
    }
}
