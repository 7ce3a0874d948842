import Testing

@testable import CampanileServer

@Suite struct CableUpgradeTests {
    static let fields: [String: [String]] = [
        "host": ["push.example.com"], "upgrade": ["websocket"], "connection": ["Upgrade"], "sec-websocket-version": ["13"],
        "sec-websocket-key": ["dGhlIHNhbXBsZSBub25jZQ=="],
    ]

    static func upgrade(
        _ changes: [String: [String]] = [:], isGET: Bool = true, isHTTP11: Bool = true, allowed: [String] = [],
        scheme: WebScheme? = nil
    ) -> Result<CableUpgrade, ClientError> {
        let fields = fields.merging(changes) { $1 }
        return Result { () throws(ClientError) in
            try CableUpgrade(isGET: isGET, isHTTP11: isHTTP11, origins: OriginRule(allowed: allowed), scheme: scheme) { name in
                fields["\(name)"] ?? []
            }
        }
    }

    /// The code of the refusal, and the first word of its sentence.
    static func refusal(_ result: Result<CableUpgrade, ClientError>) -> String? {
        guard case .failure(let error) = result else { return nil }
        return "\(error.code) \(error.detail?.split(separator: " ").first ?? "")"
    }

    static let notWebSocket = "upgradeRequired This"
    static let unsupportedVersion = "upgradeRequired Sec-WebSocket-Version"
    static let malformedKey = "malformedRequest Sec-WebSocket-Key"
    static let foreignOrigin = "forbidden Pages"

    @Test func answersTheSampleKeyOfTheStandard() throws {
        let upgrade = try Self.upgrade().get()
        #expect(upgrade.acceptKey == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        #expect(upgrade.subprotocol == nil)
        #expect(
            String(decoding: upgrade.head(requestID: "r-1"), as: UTF8.self)
                == "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Request-Id: r-1\r\n\r\n")
    }

    @Test(
        "chooses AnyCable's protocol where it is offered, else ActionCable's",
        arguments: [
            (["actioncable-v1-json, actioncable-unsupported"], "actioncable-v1-json"),
            (["actioncable-unsupported", "actioncable-v1-json"], "actioncable-v1-json"),
            (["actioncable-v1-ext-json"], "actioncable-v1-ext-json"),
            (["actioncable-v1-json, actioncable-v1-ext-json"], "actioncable-v1-ext-json"),
            (["actioncable-v1-jsonx,x"], nil), ([], nil),
        ] as [([String], String?)])
    func subprotocol(_ lines: [String], _ chosen: String?) throws {
        let upgrade = try Self.upgrade(["sec-websocket-protocol": lines]).get()
        #expect(upgrade.subprotocol?.rawValue == chosen)
        let head = String(decoding: upgrade.head(requestID: "r"), as: UTF8.self)
        #expect(head.contains("Sec-WebSocket-Protocol: ") == (chosen != nil))
        if let chosen { #expect(head.contains("Sec-WebSocket-Protocol: \(chosen)\r\n")) }
        #expect(!head.contains("Sec-WebSocket-Extensions"))
    }

    @Test(
        "takes the forms that browsers and proxies send",
        arguments: [
            ["upgrade": ["WebSocket"]], ["connection": ["keep-alive, Upgrade"]], ["connection": ["keep-alive", " upgrade "]],
            ["upgrade": ["h2c, websocket"]],
        ])
    func forms(_ changes: [String: [String]]) throws {
        _ = try Self.upgrade(changes).get()
    }

    @Test(
        "refuses what is no WebSocket request",
        arguments: [
            (["upgrade": []], Self.notWebSocket), (["upgrade": ["websockets"]], Self.notWebSocket),
            (["connection": ["keep-alive"]], Self.notWebSocket), (["sec-websocket-version": []], Self.unsupportedVersion),
            (["sec-websocket-version": ["8"]], Self.unsupportedVersion),
            (["sec-websocket-version": ["13", "13"]], Self.unsupportedVersion),
            (["sec-websocket-key": []], Self.malformedKey), (["sec-websocket-key": ["dGhlIHNhbXBsZSBub25j"]], Self.malformedKey),
            (["sec-websocket-key": ["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="]], Self.malformedKey),
            (["sec-websocket-key": ["********************Q=="]], Self.malformedKey),
            (["sec-websocket-key": [""]], Self.malformedKey),
        ])
    func refusals(_ changes: [String: [String]], _ refusal: String) {
        #expect(Self.refusal(Self.upgrade(changes)) == refusal)
    }

    @Test func refusesOtherMethodsAndVersionsOfHTTP() {
        #expect(Self.refusal(Self.upgrade(isGET: false)) == Self.notWebSocket)
        #expect(Self.refusal(Self.upgrade(isHTTP11: false)) == Self.notWebSocket)
    }

    @Test(
        "lets in pages of the own host, of allowed origins, and clients that are no pages",
        arguments: [
            [:], ["origin": ["https://push.example.com"]], ["origin": ["http://push.example.com"]],
            ["origin": ["HTTPS://PUSH.example.com"]], ["origin": ["https://app.example.com"]],
            ["origin": ["https://app.example.com:443"]], ["origin": ["http://localhost:3000"]],
            ["origin": ["http://push.example.com:3001"], "host": ["push.example.com:3001"]],
            ["origin": ["https://push.example.com"], "host": ["push.example.com:443"]],
        ])
    func allowedOrigins(_ changes: [String: [String]]) throws {
        _ = try Self.upgrade(changes, allowed: ["https://app.example.com:443", "http://localhost:3000"]).get()
    }

    @Test(
        "refuses pages of other origins",
        arguments: [
            ["origin": ["https://evil.example.com"]], ["origin": ["null"]], ["origin": [""]],
            ["origin": ["https://push.example.com.evil.com"]], ["origin": ["https://push.example.com:8443"]],
            ["origin": ["http://app.example.com"]],
            ["origin": ["https://push.example.com", "https://push.example.com"]],
            ["origin": ["https://push.example.com"], "host": []], ["origin": ["https://"], "host": [""]],
        ])
    func foreignOrigins(_ changes: [String: [String]]) {
        #expect(Self.refusal(Self.upgrade(changes, allowed: ["https://app.example.com"])) == Self.foreignOrigin)
    }

    @Test("where the scheme is known, the own host's page of the other one is a foreign page")
    func knownScheme() throws {
        for (origin, scheme) in [("https://push.example.com", WebScheme.https), ("http://push.example.com", .http)] {
            _ = try Self.upgrade(["origin": [origin]], scheme: scheme).get()
            let other: WebScheme = scheme == .https ? .http : .https
            #expect(Self.refusal(Self.upgrade(["origin": [origin]], scheme: other)) == Self.foreignOrigin)
        }
    }

    @Test("a field of the request doesn't say the scheme: anybody can send it")
    func forgedScheme() throws {
        _ = try Self.upgrade(["origin": ["http://push.example.com"], "x-forwarded-proto": ["https"]]).get()
        let forged = ["origin": ["http://push.example.com"], "x-forwarded-proto": ["http"]]
        #expect(Self.refusal(Self.upgrade(forged, scheme: .https)) == Self.foreignOrigin)
    }
}
