import CampanileCore
import Push
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

    /// How a device leaves.
    enum Leaving: CaseIterable {
        case signedOut, dead

        func leave(_ fixture: Fixture) async throws {
            switch self {
            case .signedOut: try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
            case .dead:
                fixture.provider.answer { _ in PushAnswer(outcome: .tokenGone(since: nil), status: 410, reason: "Unregistered") }
                try await fixture.create()
                _ = try await fixture.sent()
                fixture.provider.answer { _ in .accepted }
            }
            #expect(try DeviceImportTests.tokens(fixture, fixture.alice) == "")
        }
    }

    @Test("a device that signed out, or whose token died, doesn't come back with an older file", arguments: Leaving.allCases)
    func left(_ leaving: Leaving) async throws {
        let fixture = try Fixture()
        let text = Self.header + Self.line("a", "alice", fixture.time(-5)) + Self.line("b", "bob", fixture.time(-5))
        _ = try await fixture.importDevices(text)
        fixture.clock.advance(seconds: 60)
        try await leaving.leave(fixture)
        let contents = try fixture.contents()
        for isDryRun in [true, false] {
            let again = try await fixture.importDevices(text, isDryRun: isDryRun)
            #expect(again[.left] == 1 && again[.known] == 1)
        }
        let last = Self.header + Self.line("a", "bob", fixture.clock.now)
        #expect(try await fixture.importDevices(last)[.left] == 1, "as late as it left isn't later")
        #expect(try fixture.contents() == contents)
        #expect(try Self.tokens(fixture, bob) == "b")
        // One that registered again with the other system since.
        fixture.clock.advance(seconds: 60)
        #expect(try await fixture.importDevices(Self.header + Self.line("a", "bob", fixture.clock.now))[.made] == 1)
        #expect(Set(try Self.tokens(fixture, bob)) == ["a", "b"])
    }

    @Test("one that registered again since is like any other", arguments: Leaving.allCases)
    func leftAndCame(_ leaving: Leaving) async throws {
        let fixture = try Fixture()
        let old = Self.header + Self.line("a", "alice", fixture.time(-5))
        try await fixture.register("a")
        fixture.clock.advance(seconds: 60)
        try await leaving.leave(fixture)
        fixture.clock.advance(seconds: 60)
        try await fixture.register("a", bob)
        #expect(try await fixture.importDevices(old)[.known] == 1)
        #expect(try Self.tokens(fixture, bob) == "a")
        fixture.clock.advance(seconds: 60)
        #expect(try await fixture.importDevices(Self.header + Self.line("a", "alice", fixture.clock.now))[.moved] == 1)
        #expect(try Self.tokens(fixture, fixture.alice) == "a")
    }

    /// The first letters of the tokens that are known to have left.
    private static func left(_ fixture: Fixture) throws -> [String] {
        try fixture.database.read { try $0.all("SELECT substr(token, 1, 9) FROM left_tokens ORDER BY id") { $0.text(0) } }
    }

    @Test("of each user's tokens the last fifty that left are known, so that nobody makes others' forgotten")
    func leftMany() async throws {
        let fixture = try Fixture()
        try await fixture.register("b", bob)
        try await fixture.registry.delete(Fixture.token("b"), bob)
        for number in 100..<200 {
            let device = DeviceToken(
                token: "token-\(number)", platform: .android, provider: .fcm, environment: .production, appVersion: nil,
                locale: nil, lastRegisteredAt: fixture.clock.now)
            _ = try await fixture.registry.register(device, fixture.alice)
            try await fixture.registry.delete(device.token, fixture.alice)
        }
        #expect(try Self.left(fixture) == ["bbbbbbbbb"] + (150..<200).map { "token-\($0)" })
        // One token all day is one.
        for _ in 0..<60 {
            try await fixture.register("c", bob)
            try await fixture.registry.delete(Fixture.token("c"), bob)
        }
        #expect(try Self.left(fixture) == ["bbbbbbbbb"] + (150..<200).map { "token-\($0)" } + ["ccccccccc"])
    }

    @Test("one that was displaced, or wasn't seen for long, didn't leave; when one left is known as long as devices are kept")
    func leftLongAgo() async throws {
        let fixture = try Fixture()
        let day: Int64 = 24 * 3_600_000
        func retain() async throws {
            _ = try await DeviceRetention(database: fixture.store, ageMilliseconds: 270 * day, pause: .zero)
                .run(now: fixture.clock.now)
        }
        try await fixture.register("a")
        fixture.clock.advance(seconds: 60)
        let lines = (0..<51).map { "alice,token-\($0),android,,\(fixture.time(-1_000 + Int64($0)))\n" }
        _ = try await fixture.importDevices(Self.header + lines.joined())
        #expect(try fixture.registry.list(fixture.alice).count == 50)
        try await fixture.register("b", bob)
        try await fixture.registry.delete(Fixture.token("b"), bob)
        #expect(try Self.left(fixture) == ["bbbbbbbbb"])
        fixture.clock.advance(milliseconds: 270 * day)
        try await retain()
        #expect(try Self.left(fixture) == ["bbbbbbbbb"])
        fixture.clock.advance(milliseconds: 1)
        try await retain()
        #expect(try Self.left(fixture) == [] && fixture.registry.list(fixture.alice).isEmpty)
    }

    @Test("that a token left one app says nothing of another")
    func leftAnother() async throws {
        let fixture = try Fixture()
        let shop = User(app: "shop", userID: "alice")
        try await fixture.register("a", shop)
        try await fixture.registry.delete(Fixture.token("a"), shop)
        #expect(try await fixture.importDevices(Self.header + Self.line("a", "alice", fixture.time(-5)))[.made] == 1)
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
