import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// `min_app_version`: what becomes of a push to an app that is too old for the screen of its deep link.
@Suite struct ScreenRequirementTests {
    private static let tree = DeepLinkTree([
        .init(
            "home",
            children: [
                .init("new", minimumVersion: .init(ios: AppVersion("2.1.0"), android: AppVersion("3"))),
                .init("secret", minimumVersion: .init(ios: AppVersion("2.1.0"), otherwise: .noPush), children: [.init(":id")]),
            ])
    ])

    private func fixture(claimsAtCreation: Bool = false) throws -> Fixture {
        try Fixture(
            options: DeliveryOptions(rules: PerApp(all: NotificationRules(deepLinks: Self.tree))),
            claimsAtCreation: claimsAtCreation)
    }

    private func deliveries(_ id: UUIDv7, _ fixture: Fixture) throws -> [DeliveryReport] {
        try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }
    }

    private func alerts(_ fixture: Fixture) -> [PushAlert] {
        fixture.provider.messages.compactMap { message in
            guard case .alert(let alert) = message.kind else { return nil }
            return alert
        }
    }

    /// Waits for what was claimed at the creation, and lets the delivery worker send the rest.
    private func send(_ fixture: Fixture) async throws { try await fixture.deliveryWorker.sendDue() }

    @Test(
        "an older app gets the push without its link, another one with it",
        arguments: [
            (nil, false), ("2.0.9", false), ("2.1-beta", false), ("2.1", true), ("2.10", true),
        ] as [(String?, Bool)], [false, true])
    func withoutLink(app: (version: String?, hasLink: Bool), claimsAtCreation: Bool) async throws {
        let fixture = try fixture(claimsAtCreation: claimsAtCreation)
        try await fixture.register("a", appVersion: app.version)
        let id = try await fixture.create(deepLink: "/home/new?x=1")
        try await send(fixture)
        #expect(alerts(fixture).map(\.deepLink) == [app.hasLink ? "/home/new?x=1" : nil])
        let records = try deliveries(id, fixture)
        #expect(records.map(\.state) == [.accepted])
        #expect(records.map(\.reason) == [app.hasLink ? nil : .withoutLink])
        let json = try #require(try Explanation(id, app: nil, fixture.store)).json
        #expect(json["deliveries"]?.array.first?["reason"] == (app.hasLink ? .null : "without_link"))
        // The inbox keeps the link: the app that reads it may be another.
        #expect(try fixture.inboxes.notification(id, fixture.alice).content.deepLink == "/home/new?x=1")
    }

    @Test("a platform that the screen asks nothing of gets everything")
    func otherPlatform() async throws {
        let fixture = try fixture()
        try await fixture.register("a", platform: .android, appVersion: "1")
        try await fixture.create(deepLink: "home/secret")
        _ = try await fixture.sent()
        #expect(alerts(fixture).map(\.deepLink) == ["home/secret"])
    }

    @Test("no_push keeps the push from an older app, says so, and the device is owed the number", arguments: [false, true])
    func withheld(claimsAtCreation: Bool) async throws {
        let fixture = try fixture(claimsAtCreation: claimsAtCreation)
        try await fixture.register("a", appVersion: "2.0")
        try await fixture.register("b", appVersion: "2.1")
        try await fixture.create()
        try await send(fixture)
        fixture.provider.forget()
        let id = try await fixture.create(deepLink: "home/secret/7")
        let at = fixture.clock.now
        try await send(fixture)
        #expect(fixture.provider.messages.map(\.summary) == ["alert b 2"])
        #expect(alerts(fixture).map(\.deepLink) == ["home/secret/7"])
        let records = try deliveries(id, fixture)
        #expect(records.map(\.state) == [.withheld, .accepted])
        #expect(records.map(\.reason) == [.appVersion, nil])
        #expect(records.map(\.settledAt) == [at, at])
        #expect(records.map(\.attempts) == [0, 1])
        let lines = try #require(try Explanation(id, app: nil, fixture.store)).lines
        #expect(lines.first == "…aaaaaa, apns: withheld, 0 attempts, because the app is too old for the screen of its deep link")
        // As with push: false, the number comes with the others of two seconds.
        #expect(try await fixture.sent() == [])
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge a 2"])
    }

    @Test("what is withheld doesn't keep the alert behind it waiting")
    func nextAlert() async throws {
        let fixture = try fixture()
        try await fixture.register("a", appVersion: "1")
        try await fixture.create(deepLink: "home/secret")
        try await fixture.create(deepLink: "home")
        #expect(try await fixture.sent() == ["alert a 2"])
        fixture.clock.advance(seconds: 3)
        #expect(try await fixture.sent() == [])
    }

    @Test("an app that was renewed while its push waited gets it whole")
    func renewed() async throws {
        let fixture = try fixture()
        try await fixture.register("a", appVersion: "1")
        let id = try await fixture.create(deepLink: "home/secret")
        try await fixture.register("a", appVersion: "2.1")
        #expect(try await fixture.sent() == ["alert a 1"])
        #expect(try deliveries(id, fixture).map(\.state) == [.accepted])
    }

    @Test("a retry that goes to an app renewed meanwhile has its link, and says nothing any more of one left out")
    func renewedBeforeRetry() async throws {
        let fixture = try fixture()
        try await fixture.register("a", appVersion: "1")
        let id = try await fixture.create(deepLink: "home/new")
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        _ = try await fixture.sent()
        #expect(try deliveries(id, fixture).map(\.state) == [.owed])
        #expect(try deliveries(id, fixture).map(\.reason) == [.withoutLink])
        try await fixture.register("a", appVersion: "2.1")
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 120)
        #expect(try await fixture.sent() == ["alert a 1"])
        #expect(alerts(fixture).map(\.deepLink) == ["home/new"])
        let records = try deliveries(id, fixture)
        #expect(records.map(\.state) == [.accepted])
        #expect(records.map(\.reason) == [nil])
        #expect(records.map(\.attempts) == [2])
    }

    @Test("a retry that would go to an app put back meanwhile is withheld, and keeps its attempts")
    func putBackBeforeRetry() async throws {
        let fixture = try fixture()
        try await fixture.register("a", appVersion: "2.1")
        let id = try await fixture.create(deepLink: "home/secret")
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        _ = try await fixture.sent()
        try await fixture.register("a", appVersion: "2.0")
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 120)
        #expect(try await fixture.sent().allSatisfy { !$0.hasPrefix("alert") })
        let records = try deliveries(id, fixture)
        #expect(records.map(\.state) == [.withheld])
        #expect(records.map(\.reason) == [.appVersion])
        #expect(records.map(\.attempts) == [1])
    }

    @Test(
        "each of many devices gets what its own version can show, at the creation and by the delivery worker",
        arguments: [false, true])
    func manyDevices(claimsAtCreation: Bool) async throws {
        let fixture = try fixture(claimsAtCreation: claimsAtCreation)
        let letters = "abcdefghijkl"
        for (index, letter) in letters.enumerated() {
            try await fixture.register(letter, appVersion: index.isMultiple(of: 2) ? "2.0.\(index)" : "2.1.\(index)")
        }
        let id = try await fixture.create(deepLink: "home/new?" + String(repeating: "x", count: 1_900))
        try await send(fixture)
        #expect(alerts(fixture).count(where: { $0.deepLink == nil }) == 6)
        #expect(alerts(fixture).count == 12)
        #expect(
            try deliveries(id, fixture).map(\.reason)
                == letters.indices.enumerated().map { $0.offset.isMultiple(of: 2) ? .withoutLink : nil })
    }

    @Test("a number that the device refused before is told when the push that would have told the next one is withheld")
    func refusedBefore() async throws {
        let fixture = try fixture()
        try await fixture.register("a", appVersion: "1")
        try await fixture.create()
        _ = try await fixture.sent()
        fixture.provider.answer { _ in PushAnswer(outcome: .rejected, status: 400, reason: "BadPriority") }
        try await fixture.create(push: false)
        fixture.clock.advance(seconds: 3)
        #expect(try await fixture.sent() == ["badge a 2"])
        fixture.provider.answer { _ in .accepted }
        try await fixture.create(deepLink: "home/secret")
        _ = try await fixture.sent()
        fixture.clock.advance(seconds: 3)
        #expect(try await fixture.sent() == ["badge a 3"])
    }
}

@Suite struct CategoryPushTests {
    @Test("an alert gets what the configuration says of its category at the time it goes", arguments: [false, true])
    func category(claimsAtCreation: Bool) async throws {
        let fields = PayloadFields([
            .init("interruption_level", "passive"), .init("android", .object([.init("channel_id", "notices")])),
        ])
        let rules = NotificationRules(categories: ["NOTICE": .init(fields: fields)])
        let fixture = try Fixture(options: DeliveryOptions(rules: PerApp(all: rules)), claimsAtCreation: claimsAtCreation)
        try await fixture.register("a")
        try await fixture.create(category: "NOTICE")
        try await fixture.deliveryWorker.sendDue()
        try await fixture.create(category: "OTHER")
        try await fixture.deliveryWorker.sendDue()
        let alerts = fixture.provider.messages.compactMap { message -> PushAlert? in
            if case .alert(let alert) = message.kind { alert } else { nil }
        }
        #expect(alerts.map(\.defaults) == [fields, PayloadFields()])
    }
}
