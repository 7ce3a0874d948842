import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// Firebase's two kinds of identifiers for one installation: a registration token, and the installation's ID, with which that begins.
@Suite("Firebase Installation IDs") struct InstallationTests {
    private static let fid = "fYt3_qE-ZkWmTa9bXc0LrQ"
    private static let token = "\(fid):APA91b-one"
    private static let bob = User(app: "default", userID: "bob")

    private static func device(
        _ token: String, _ kind: DeviceTokenKind, platform: DevicePlatform = .android, at time: Timestamp
    ) -> DeviceToken {
        DeviceToken(
            token: token, kind: kind, platform: platform, provider: .fcm, environment: .production, appVersion: nil,
            locale: nil, lastRegisteredAt: time)
    }

    @discardableResult
    private static func register(
        _ token: String, _ kind: DeviceTokenKind, _ fixture: Fixture, _ user: User? = nil
    ) async throws -> Bool {
        let device = device(token, kind, at: fixture.clock.now)
        return try await fixture.registry.register(device, user ?? fixture.alice).isNew
    }

    private static func identifiers(_ fixture: Fixture, _ user: User? = nil) throws -> [String] {
        try fixture.registry.list(user ?? fixture.alice).map { "\($0.kind) \($0.token)" }
    }

    private static func sent(_ fixture: Fixture) async throws -> [String] {
        fixture.provider.forget()
        try await fixture.deliveryWorker.sendDue()
        return fixture.provider.messages.map { "\($0.device.kind) \($0.device.token) \($0.badge.count)" }
    }

    private static let kinds: [(before: (String, DeviceTokenKind), after: (String, DeviceTokenKind))] = [
        ((token, .token), (fid, .fid)), ((fid, .fid), (token, .token)),
    ]

    @Test("one installation stays one row: its id, what it was told and what is owed to it stay", arguments: [0, 1])
    func replaced(_ direction: Int) async throws {
        let (before, after) = Self.kinds[direction]
        let fixture = try Fixture()
        #expect(try await Self.register(before.0, before.1, fixture))
        try await fixture.create()
        #expect(try await Self.sent(fixture) == ["\(before.1) \(before.0) 1"])
        let told = try fixture.number("SELECT id * 1000 + told_count FROM device_tokens")
        let owed = try await fixture.create()
        #expect(try await Self.register(after.0, after.1, fixture) == false)
        #expect(try Self.identifiers(fixture) == ["\(after.1) \(after.0)"])
        #expect(try fixture.number("SELECT id * 1000 + told_count FROM device_tokens") == told)
        #expect(try await Self.sent(fixture) == ["\(after.1) \(after.0) 2"])
        #expect(try fixture.states(of: owed) == [.accepted])
    }

    @Test("an ID replaces the tokens that begin with it and a colon, and none that only look alike; of its own app alone")
    func lookalikes() async throws {
        let fixture = try Fixture()
        // `_` and `%` are wildcards of LIKE, and `;` and `9` stand beside `:`.
        let others = [
            "\(Self.fid)9:x", "\(Self.fid);x", Self.fid.replacing("_", with: "x") + ":x", "\(Self.fid.lowercased()):x", "%:x",
        ]
        for other in others { try await Self.register(other, .token, fixture) }
        let elsewhere = User(app: "other", userID: "alice")
        try await Self.register(Self.token, .token, fixture, elsewhere)
        #expect(try await Self.register(Self.fid, .fid, fixture))
        #expect(try fixture.registry.list(fixture.alice).count == others.count + 1)
        #expect(try Self.identifiers(fixture, elsewhere) == ["token \(Self.token)"])
        // A token whose beginning is another token's whole text is another installation.
        #expect(try await Self.register("\(others[0]):y", .token, fixture))
    }

    @Test("an ID of another user's installation moves as a token moves: nothing of the former user's reaches it")
    func moved() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.token, .token, fixture)
        let owed = try await fixture.create()
        for _ in 0..<3 { try await fixture.create(Self.bob) }
        #expect(try await Self.register(Self.fid, .fid, fixture, Self.bob) == false)
        #expect(try Self.identifiers(fixture).isEmpty && Self.identifiers(fixture, Self.bob) == ["fid \(Self.fid)"])
        #expect(try fixture.states(of: owed) == [.gone])
        try await fixture.create(Self.bob)
        #expect(try await Self.sent(fixture) == ["fid \(Self.fid) 4"])
    }

    @Test(
        "of several rows of one installation the latest registered stays, and the others leave as by DELETE", arguments: [0, 1])
    func several(_ latest: Int) async throws {
        let fixture = try Fixture()
        let tokens = [Self.token, "\(Self.fid):APA91b-two"]
        for token in tokens { try await Self.register(token, .token, fixture) }
        fixture.clock.advance(seconds: 1)
        try await Self.register(tokens[latest], .token, fixture)
        let id = try fixture.number("SELECT id FROM device_tokens ORDER BY last_registered_at DESC LIMIT 1")
        let owed = try await fixture.create()
        try await Self.register(Self.fid, .fid, fixture)
        #expect(try Self.identifiers(fixture) == ["fid \(Self.fid)"])
        #expect(try fixture.number("SELECT id FROM device_tokens") == id)
        #expect(try Set(fixture.states(of: owed)) == [.gone, .owed])
        #expect(try await Self.sent(fixture) == ["fid \(Self.fid) 1"])
        let left = try fixture.store.readBlocking { reading in
            try tokens.map { try reading.leftTokens.leftAt(app: "default", token: $0) != nil }
        }
        #expect(left == [true, true])
    }

    @Test("also when the row with the identifier itself isn't the latest")
    func severalWithItself() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.fid, .fid, fixture)
        // As a node of the program before registers it.
        let user = fixture.alice
        let newer = Self.device(Self.token, .token, at: fixture.time(5))
        try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: user.app, userID: user.userID)
            _ = try transaction.deviceTokens.insert(newer, app: user.app, inbox: inbox.id)
        }
        fixture.clock.advance(seconds: 10)
        let id = try fixture.number("SELECT max(id) FROM device_tokens")
        try await Self.register(Self.fid, .fid, fixture)
        #expect(try Self.identifiers(fixture) == ["fid \(Self.fid)"])
        #expect(try fixture.number("SELECT id FROM device_tokens") == id)
    }

    private static let answers: [(PushOutcome, DeliveryState)] = [
        (.tokenGone(since: nil), .owed), (.tokenForeign, .owed), (.unavailable(afterMilliseconds: nil), .owed),
        (.rejected, .owed), (.deviceBusy(afterMilliseconds: 86_400_000), .owed), (.accepted, .accepted),
    ]

    @Test("an answer to the identifier of before neither removes the new one nor sends to both", arguments: 0..<answers.count)
    func answered(_ index: Int) async throws {
        let (outcome, state) = Self.answers[index]
        let fixture = try Fixture()
        try await Self.register(Self.token, .token, fixture)
        let id = try await fixture.create()
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        fixture.provider.answer { message in
            guard message.device.kind == .token else { return PushAnswer(outcome: .accepted, status: 200, reason: nil) }
            for await _ in gate {}
            return PushAnswer(outcome: outcome, status: nil, reason: nil)
        }
        let sending = Task { try await fixture.deliveryWorker.sendDue() }
        await fixture.provider.untilSent()
        try await Self.register(Self.fid, .fid, fixture)
        #expect(try await fixture.claimDue().isEmpty, "one push to an installation is in flight at most")
        open.finish()
        try await sending.value
        #expect(try Self.identifiers(fixture) == ["fid \(Self.fid)"])
        #expect(try fixture.states(of: id) == [state])
        fixture.clock.advance(seconds: 3_600)
        #expect(try await Self.sent(fixture) == (state == .owed ? ["fid \(Self.fid) 1"] : []))
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("an ID that is dead leaves with what is owed to it")
    func dead() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.fid, .fid, fixture)
        let id = try await fixture.create()
        fixture.provider.answer { _ in PushAnswer(outcome: .tokenGone(since: nil), status: 404, reason: "UNREGISTERED") }
        #expect(try await Self.sent(fixture).count == 1)
        #expect(try Self.identifiers(fixture).isEmpty)
        #expect(try fixture.states(of: id) == [.gone])
    }

    @Test("what was in flight when the server was killed goes to the new identifier")
    func killed() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.token, .token, fixture)
        try await fixture.create()
        #expect(try await fixture.claimDue().count == 1)
        try await Self.register(Self.fid, .fid, fixture)
        #expect(try await fixture.releaseLeases() == 1)
        #expect(try await Self.sent(fixture) == ["fid \(Self.fid) 1"])
    }

    @Test(
        "a device goes to its ID's share, but stays while a push is in flight: another node wouldn't free it under this one's lease",
        arguments: [false, true])
    func share(_ isInFlight: Bool) async throws {
        let fixture = try Fixture(on: .postgres)
        try await Self.register(Self.token, .token, fixture)
        let shares = [Self.token, Self.fid].map { Int64(TokenShard.of(app: "default", token: $0)) }
        #expect(try fixture.number("SELECT shard FROM device_tokens") == shares[0] && shares[0] != shares[1])
        try await fixture.create()
        if isInFlight { #expect(try await fixture.claimDue().map { Int64($0.shard) } == [shares[0]]) }
        try await Self.register(Self.fid, .fid, fixture)
        #expect(try fixture.number("SELECT shard FROM device_tokens") == shares[isInFlight ? 0 : 1])
        if isInFlight { #expect(try await fixture.releaseLeases() == 1) }
        #expect(try await fixture.claimDue().map { Int64($0.shard) } == [shares[isInFlight ? 0 : 1]])
    }

    // MARK: - Imports

    private static let header = "user_id,token,kind,platform,last_registered_at\n"

    @Test("an import's older row of the form before counts as left, and a newer one of either kind replaces")
    func imported() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.token, .token, fixture)
        fixture.clock.advance(seconds: 10)
        try await Self.register(Self.fid, .fid, fixture)
        let old = "user_id,token,platform,last_registered_at\nalice,\(Self.token),android,\(fixture.time(-5_000))\n"
        #expect(try await fixture.importDevices(old, isDryRun: true)[.left] == 1)
        #expect(try await fixture.importDevices(old)[.left] == 1)
        #expect(try Self.identifiers(fixture) == ["fid \(Self.fid)"])
        let same = Self.header + "alice,\(Self.fid),fid,android,\(fixture.time(-5_000))\n"
        #expect(try await fixture.importDevices(same)[.known] == 1)
        fixture.clock.advance(seconds: 10)
        let newer = Self.header + "bob,\(Self.token),token,android,\(fixture.time(-1_000))\n"
        #expect(try await fixture.importDevices(newer)[.moved] == 1)
        #expect(try Self.identifiers(fixture).isEmpty && Self.identifiers(fixture, Self.bob) == ["token \(Self.token)"])
        fixture.clock.advance(seconds: 10)
        let newest = Self.header + "bob,\(Self.fid),fid,android,\(fixture.time(0))\n"
        #expect(try await fixture.importDevices(newest)[.renewed] == 1)
        #expect(try Self.identifiers(fixture, Self.bob) == ["fid \(Self.fid)"])
    }

    @Test("the row of a dead ID isn't brought back by an older import")
    func importedDead() async throws {
        let fixture = try Fixture()
        try await Self.register(Self.fid, .fid, fixture)
        try await fixture.registry.delete(Self.fid, fixture.alice)
        let rows = Self.header + "alice,\(Self.fid),fid,android,\(fixture.time(-5_000))\n"
        #expect(try await fixture.importDevices(rows)[.left] == 1)
    }

    // MARK: - The call

    @Test("the kind is answered, 201 for a new installation and 200 for one that was replaced; a token is the default")
    func call() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let first = try await server.client.post(
                "/device_tokens", #"{"token":"\#(Self.token)","platform":"android"}"#, as: alice)
            #expect(first.status == 201)
            #expect(try first.json["kind"]?.string == "token")
            let second = try await server.client.post(
                "/device_tokens", #"{"token":"\#(Self.fid)","kind":"fid","platform":"android"}"#, as: alice)
            #expect(second.status == 200)
            #expect(try second.json["kind"]?.string == "fid" && second.json["token"]?.string == Self.fid)
            let devices = try await server.client.get("/device_tokens", as: alice).json["device_tokens"]?.array ?? []
            #expect(devices.map { $0["kind"]?.string } == ["fid"])
            let badge = try await server.client.get("/badge", as: alice)
            #expect(badge.status == 200)
            #expect(try await server.client.send("DELETE", "/device_tokens/\(Self.token)", as: alice).status == 404)
            #expect(try await server.client.send("DELETE", "/device_tokens/\(Self.fid)", as: alice).status == 204)
        }
    }

    @Test(
        "mistakes are named",
        arguments: [
            (#"{"token":"a","kind":"id","platform":"android"}"#, ["kind"]),
            (#"{"token":"a","kind":1,"platform":"android"}"#, ["kind"]),
            (#"{"token":"ab","kind":"fid","platform":"ios"}"#, ["kind"]),
            (#"{"token":"ab","kind":"fid","platform":"ios","provider":"apns"}"#, ["kind"]),
            (#"{"token":"ab","kind":"fid","platform":"android","provider":"apns"}"#, ["provider", "kind"]),
            (#"{"token":"a:b","kind":"fid","platform":"android"}"#, ["token"]),
            (#"{"token":"","kind":"fid","platform":"android"}"#, ["token"]),
            (#"{"token":"\#(String(repeating: "a", count: 65))","kind":"fid","platform":"android"}"#, ["token"]),
        ])
    func mistakes(_ body: String, _ fields: [String]) async throws {
        try await withServer { server in
            let answer = try await server.client.post("/device_tokens", body, as: try await server.user())
            #expect((answer.status, answer.errorFields) == (422, fields))
        }
    }

    @Test("an iPhone that Firebase serves has an ID too", arguments: [1, 64])
    func iPhone(_ length: Int) async throws {
        try await withServer { server in
            let body = #"{"token":"\#(String(repeating: "-", count: length))","kind":"fid","platform":"ios","provider":"fcm"}"#
            let answer = try await server.client.post("/device_tokens", body, as: try await server.user())
            #expect(answer.status == 201)
        }
    }
}
