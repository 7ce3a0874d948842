import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Import of device tokens") struct DeviceImportTests {
    private let bob = User(app: "default", userID: "bob")

    private static func line(_ letter: Character, _ user: String, _ time: Timestamp, environment: String = "") -> String {
        "\(user),\(Fixture.token(letter).uppercased()),ios,\(environment),\(time)\n"
    }

    private static let header = "user_id,token,platform,environment,last_registered_at\n"

    private static func tokens(_ fixture: Fixture, _ user: User) throws -> String {
        String(try fixture.registry.list(user).compactMap(\.token.first))
    }

    @Test("a device comes in as it was registered, and gets the alerts of what is created next and nothing else")
    func made() async throws {
        let fixture = try Fixture()
        let report = try await fixture.importDevices(
            Self.header + Self.line("a", "alice", fixture.time(-5), environment: "sandbox")
                + Self.line("b", "bob", fixture.time(-6)))
        #expect(report[.made] == 2)
        let device = try #require(try fixture.registry.list(fixture.alice).first)
        #expect(device.token == Fixture.token("a") && device.environment == .sandbox && device.provider == .apns)
        #expect(device.lastRegisteredAt == fixture.time(-5))
        #expect(try await fixture.sent() == [])
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1"])
    }

    @Test("a second run changes nothing, and an older registration than the one here neither")
    func second() async throws {
        let fixture = try Fixture()
        let text = Self.header + Self.line("a", "alice", fixture.time(-5))
        _ = try await fixture.importDevices(text)
        let contents = try fixture.contents()
        #expect(try await fixture.importDevices(text)[.known] == 1)
        #expect(try fixture.contents() == contents)
        try await fixture.register("a", bob)
        let registered = try fixture.contents()
        #expect(try await fixture.importDevices(Self.header + Self.line("a", "alice", fixture.time(-1)))[.known] == 1)
        #expect(try fixture.contents() == registered)
    }

    @Test("a newer registration of the same user renews, of another's moves the token; what was owed is settled, nothing told")
    func newer() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let owed = try await fixture.create()
        for _ in 0..<3 { try await fixture.create(bob) }
        fixture.clock.advance(seconds: 10)
        let renewed = Self.header + Self.line("a", "alice", fixture.time(-9_000), environment: "sandbox")
        #expect(try await fixture.importDevices(renewed)[.renewed] == 1)
        #expect(try fixture.registry.list(fixture.alice).first?.environment == .sandbox)
        let moved = Self.header + Self.line("a", "bob", fixture.time(-8_000))
        #expect(try await fixture.importDevices(moved, isDryRun: true)[.moved] == 1)
        #expect(try Self.tokens(fixture, fixture.alice) == "a")
        #expect(try await fixture.importDevices(moved)[.moved] == 1)
        #expect(try Self.tokens(fixture, fixture.alice) == "" && Self.tokens(fixture, bob) == "a")
        #expect(try fixture.states(of: owed) == [.gone])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent() == [])
        // With the next event of the inbox it is told.
        try await fixture.create(bob)
        #expect(try await fixture.sent() == ["alert a 4"])
    }

    @Test("a newer registration leaves what its file doesn't say as it is")
    func unsaid() async throws {
        let fixture = try Fixture()
        let device = DeviceToken(
            token: Fixture.token("a"), platform: .ios, provider: .apns, environment: .sandbox, appVersion: "2.1", locale: "de",
            lastRegisteredAt: fixture.clock.now)
        _ = try await fixture.registry.register(device, fixture.alice)
        fixture.clock.advance(seconds: 10)
        let file = "user_id,token,platform,last_registered_at\nalice,\(device.token),ios,\(fixture.clock.now)\n"
        #expect(try await fixture.importDevices(file)[.renewed] == 1)
        let known = try #require(try fixture.registry.list(fixture.alice).first)
        #expect(known.environment == .sandbox && known.appVersion == "2.1" && known.locale == "de")
        #expect(known.lastRegisteredAt == fixture.clock.now)
    }

    @Test("a user holds the fifty newest, whatever the order of the file, and a second run is harmless")
    func limit() async throws {
        let fixture = try Fixture()
        let lines = (0..<60).map { number in
            "alice,token-\(number),android,,\(fixture.time(-1_000 + Int64(number * 37 % 60)))\n"
        }
        _ = try await fixture.importDevices(Self.header + lines.joined())
        let newest = (0..<60).sorted { $0 * 37 % 60 > $1 * 37 % 60 }.prefix(50).map { "token-\($0)" }
        #expect(try fixture.registry.list(fixture.alice).map(\.token) == newest)
        let contents = try fixture.contents()
        let report = try await fixture.importDevices(Self.header + lines.joined())
        #expect(report[.surplus] == 10 && report[.known] == 50)
        #expect(try fixture.contents() == contents)
    }

    @Test("a device is held to the rules of POST /device_tokens, and all mistakes are told")
    func mistakes() async throws {
        let fixture = try Fixture()
        let text = """
            user_id,token,platform,provider,last_registered_at
            ,xyz,ios,,2026-01-01T00:00:00Z
            alice,abc,windows,,yesterday
            alice,abc,android,apns,2099-01-01T00:00:00Z

            """
        let report = try await fixture.importDevices(text)
        #expect(
            report.mistakes.map { "\($0.line) \($0.sentence)" } == [
                "2 user_id is required.", "2 token must be APNs' device token as 1 to 400 hexadecimal digits.",
                "3 last_registered_at must be an RFC 3339 time, such as 2026-11-21T08:00:00Z.",
                "3 platform must be ios or android.", "4 last_registered_at must not be in the future, nor before 1970.",
                "4 provider must be fcm for an Android device.",
            ])
        #expect(try fixture.registry.list(fixture.alice).isEmpty)
    }
}
