import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// Badge pushes and alerts name what was read, deleted or withdrawn on one device, so that it leaves the others.
@Suite("what was handled leaves the other devices") struct DismissalTests {
    static func fixture(_ change: (inout Settings) -> Void = { _ in }) throws -> Fixture {
        var settings = Settings()
        change(&settings)
        return try Fixture(
            syncOnRead: settings.syncOnRead, androidData: settings.androidData,
            neverZeroWhileOthersRemain: settings.neverZero, contentAvailable: settings.contentAvailable,
            options: DeliveryOptions(rules: PerApp(all: NotificationRules(mutableContent: settings.hasExtension))))
    }

    struct Settings {
        var syncOnRead = true
        var androidData = false
        var neverZero = false
        var hasExtension = false
        var contentAvailable = ContentAvailable.whenDismissing
    }

    /// Sends what is due after the moments in which syncs join, also those of a user who reads on, and tells it in words: notifications by their place in a list.
    static func sent(_ fixture: Fixture, _ ids: [UUIDv7]) async throws -> [String] {
        fixture.clock.advance(milliseconds: Limits.readingPauseMilliseconds)
        _ = try await fixture.sent()
        func word(_ id: UUIDv7) -> String { ids.firstIndex(of: id).map { "\($0)" } ?? "?" }
        return fixture.provider.messages.map { message in
            let taken =
                switch message.dismissal {
                case nil: ""
                case .ids(let taken)?: " takes \(taken.map(word).joined(separator: " "))"
                case .through(let id)?: " takes up to \(word(id))"
                }
            return message.summary + taken
        }.sorted()
    }

    static func read(_ id: UUIDv7, on device: Character? = nil, _ fixture: Fixture) async throws {
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: device.map(Fixture.token))
    }

    static func withdraw(_ id: UUIDv7, _ fixture: Fixture) async throws {
        try await fixture.inboxes.withdraw(
            id, userID: "alice", by: Producer(keyID: APIKeyID(1), firstKeyID: APIKeyID(1), name: "tests", app: "default"))
    }

    @Test("a sync names what was read elsewhere, to the devices that were told of it, and never to the acting one")
    func syncs() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(3, to: "a", "b")
        try await fixture.register("c")
        try await fixture.register("d", platform: .android)
        try await Self.read(ids[0], on: "a", fixture)
        try await Self.read(ids[1], on: "a", fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge b 1 takes 0 1"])
        #expect(try await Self.sent(fixture, ids) == [])
    }

    @Test("deleting and withdrawing take away, too; what was read before is named no second time")
    func deleting() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(4, to: "a")
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 3 takes 0"])
        try await fixture.inboxes.delete(ids[0], fixture.alice, device: nil)
        try await Self.withdraw(ids[1], fixture)
        try await fixture.inboxes.delete(ids[2], fixture.alice, device: nil)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 1 2 0"])
    }

    @Test(
        "what a badge push named an alert names once more, as iOS may not have woken the app; what only an alert named a badge push names, unless all alerts run the extension",
        arguments: [true, false])
    func alerts(_ hasExtension: Bool) async throws {
        let fixture = try Self.fixture { $0.hasExtension = hasExtension }
        var ids = try await fixture.tell(3, to: "a")
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 2 takes 0"])
        try await Self.read(ids[1], fixture)
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 2 takes 1 0"])
        #expect(try await Self.sent(fixture, ids) == (hasExtension ? [] : ["badge a 2 takes 1"]))
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == [hasExtension ? "alert a 3" : "alert a 3 takes 1"])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 4"])
    }

    @Test("an alert that is sent as its notification is created names them, too")
    func createdAlerts() async throws {
        let clock = HandClock()
        let fixture = try Fixture(clock: clock, claimsAtCreation: true)
        try await fixture.register("a")
        let first = try await fixture.create()
        await fixture.provider.untilSent(1)
        try await fixture.deliveryWorker.sendDue()
        try await Self.read(first, fixture)
        let second = try await fixture.create()
        await fixture.provider.untilSent(2)
        #expect(fixture.provider.messages.last?.dismissal == .ids([first]), "\(second)")
    }

    @Test("an iPhone's 0 empties its notification centre by itself, and what is read later than that isn't named again")
    func zero() async throws {
        let fixture = try Self.fixture()
        var ids = try await fixture.tell(2, to: "a")
        try await fixture.open()
        #expect(try await Self.sent(fixture, ids) == ["badge a 0"])
        // Both left with the 0.
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == [])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 2"])
        try await Self.read(ids[1], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1"])
        try await Self.read(ids[2], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 0"])
        try await fixture.create()
        #expect(try await Self.sent(fixture, ids) == ["alert a 1"])
    }

    @Test("marking all read names them in one id: to Android, and in the alert that overtakes an iPhone's 0")
    func all() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        try await fixture.register("b")
        try await fixture.register("e", platform: .android)
        var ids = try await fixture.tell(3, to: "a")
        try await fixture.register("f", platform: .android)
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: Fixture.token("e"))
        ids.append(try await fixture.create())
        #expect(
            try await Self.sent(fixture, ids) == [
                "alert a 1 takes up to 2", "alert b 1 takes up to 2", "alert d 1 takes up to 2", "alert e 1", "alert f 1",
            ])
        // Android's system drew the alert, and no code of the app's saw it. The iPhones' app may have no extension.
        #expect(
            try await Self.sent(fixture, ids) == [
                "badge a 1 takes up to 2", "badge b 1 takes up to 2", "dismiss d takes up to 2",
            ])
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: Fixture.token("e"))
        #expect(
            try await Self.sent(fixture, ids) == [
                "badge a 0", "badge b 0", "dismiss d takes up to 3", "dismiss f takes up to 3",
            ])
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: Fixture.token("e"))
        #expect(try await Self.sent(fixture, ids) == [])
    }

    @Test("to Android it goes without the number, or with it in one message where the app draws that", arguments: [false, true])
    func android(_ drawsNumber: Bool) async throws {
        let fixture = try Self.fixture { $0.androidData = drawsNumber }
        try await fixture.register("d", platform: .android)
        var ids = try await fixture.tell(3, to: "a")
        try await Self.read(ids[0], on: "a", fixture)
        let word = drawsNumber ? "badge d 2" : "dismiss d"
        #expect(try await Self.sent(fixture, ids) == ["\(word) takes 0"])
        try await fixture.open()
        #expect(try await Self.sent(fixture, ids) == (drawsNumber ? ["badge a 0", "badge d 0"] : ["badge a 0"]))
        // Android's notification centre stays as it is at a 0.
        try await Self.read(ids[1], on: "a", fixture)
        #expect(try await Self.sent(fixture, ids) == [drawsNumber ? "badge d 0 takes 1" : "dismiss d takes 1"])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 2", "alert d 2"])
    }

    @Test("what is unread again stays; what is older goes up to it, and what is newer by its id")
    func unread() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        let ids = try await fixture.tell(4, to: "a")
        try await Self.read(ids[0], fixture)
        _ = try await fixture.inboxes.setRead(false, ids[0], fixture.alice, device: nil)
        #expect(try await Self.sent(fixture, ids) == [])
        _ = try await fixture.inboxes.markAllRead(upTo: ids[2], fixture.alice, device: Fixture.token("a"))
        _ = try await fixture.inboxes.setRead(false, ids[1], fixture.alice, device: Fixture.token("a"))
        for expected in [Dismissal.through(ids[1].predecessor), .ids([ids[2]])] {
            fixture.clock.advance(seconds: 5)
            _ = try await fixture.sent()
            let dismissal = fixture.provider.messages.first { $0.device.platform == .android }?.dismissal
            #expect(dismissal == expected)
        }
        fixture.clock.advance(seconds: 5)
        #expect(try await fixture.sent() == [])
    }

    @Test("what is deleted after all was marked read leaves, also if an older one is unread again")
    func deletedAmongAll() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        let ids = try await fixture.tell(4, to: "a")
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: Fixture.token("a"))
        try await fixture.inboxes.delete(ids[2], fixture.alice, device: Fixture.token("a"))
        try await Self.withdraw(ids[3], fixture)
        _ = try await fixture.inboxes.setRead(false, ids[1], fixture.alice, device: Fixture.token("a"))
        #expect(try await Self.sent(fixture, ids).filter { $0.contains(" d") } == ["dismiss d takes up to ?"])
        #expect(try await Self.sent(fixture, ids) == ["dismiss d takes 2 3"])
    }

    @Test("what is read while its alert is in flight leaves after the answer, unless the provider refused it")
    func inFlight() async throws {
        for outcome in [PushOutcome.accepted, .rejected] {
            let fixture = try Self.fixture()
            var ids = try await fixture.tell(1, to: "a")
            ids.append(try await fixture.create())
            let second = ids[1]
            fixture.provider.answerNext { [fixture] _ in
                await #expect(throws: Never.self) { try await Self.read(second, fixture) }
                return PushAnswer(outcome: outcome, status: 200, reason: nil)
            }
            #expect(try await Self.sent(fixture, ids) == ["alert a 2"])
            let expected = outcome == .accepted ? ["badge a 1 takes 1"] : []
            #expect(try await Self.sent(fixture, ids) == expected, "\(outcome)")
        }
    }

    @Test("with sync_on_read off nothing is pushed for it alone; alerts and what is pushed anyway name it")
    func withoutSync() async throws {
        let fixture = try Self.fixture { $0.syncOnRead = false }
        try await fixture.register("d", platform: .android)
        var ids = try await fixture.tell(4, to: "a")
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == [])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 4 takes 0", "alert d 4 takes 0"])
        try await Self.withdraw(ids[1], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 3 takes 0 1"])
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        #expect(try await Self.sent(fixture, ids) == ["badge a 0"])
    }

    @Test("while a 0 is kept back nothing is pushed to an iPhone; its next alert names what was read")
    func keptBack() async throws {
        let fixture = try Self.fixture { $0.neverZero = true }
        try await fixture.register("d", platform: .android)
        var ids = try await fixture.tell(3, to: "a")
        try await fixture.open()
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["dismiss d takes 0"])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 3 takes 0", "alert d 3"])
    }

    @Test("an app that is never woken is told by alerts alone")
    func neverWoken() async throws {
        let fixture = try Self.fixture { $0.contentAvailable = .never }
        var ids = try await fixture.tell(2, to: "a")
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1"])
        ids.append(try await fixture.create())
        #expect(try await Self.sent(fixture, ids) == ["alert a 2 takes 0"])
    }

    @Test("of a collapse key only the newest shows: an older one isn't named")
    func collapsed() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("a")
        let ids = [try await fixture.create(collapseKey: "k"), try await fixture.create(collapseKey: "k")]
        _ = try await fixture.sent()
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1"])
        try await fixture.create()
        _ = try await fixture.sent()
        try await Self.read(ids[1], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 1"])
    }

    @Test("more than twenty go in several pushes")
    func many() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(60, to: "a")
        for id in ids[1...25] { try await Self.read(id, fixture) }
        let first = (1...20).map { "\($0)" }.joined(separator: " ")
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await Self.sent(fixture, ids).first == "badge a 35 takes \(first)")
        #expect(try await Self.sent(fixture, ids) == ["badge a 35 takes 21 22 23 24 25 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"])
        #expect(try await Self.sent(fixture, ids) == [])
    }

    @Test("an alert that goes again after its entry was read leaves, too: it may have come twice")
    func retriedAlert() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        var ids = try await fixture.tell(2, to: "a")
        ids.append(try await fixture.create())
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        #expect(try await Self.sent(fixture, ids) == ["alert a 3", "alert d 3"])
        try await Self.read(ids[2], fixture)
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 90)
        #expect(try await Self.sent(fixture, ids) == ["alert a 2 takes 2", "alert d 2 takes 2"])
        #expect(try await Self.sent(fixture, ids) == ["badge a 2 takes 2", "dismiss d takes 2"])
        #expect(try await Self.sent(fixture, ids) == [])
    }

    @Test("a 0 to an iPhone of which nobody knows what it shows names them: it may show 0 already")
    func unknownZero() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(1, to: "a")
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 0"])
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 200)
        #expect(try await Self.sent(fixture, ids) == ["badge a 0 takes 0"])
        try await fixture.create()
        #expect(try await Self.sent(fixture, ids) == ["alert a 1 takes 0"])
    }

    @Test("an alert that was given up without an answer may show, and leaves")
    func givenUp() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("a")
        let ids = [try await fixture.create()]
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        for _ in 0..<Limits.deliveryAttempts {
            _ = try await fixture.sent()
            fixture.clock.advance(seconds: 3_600)
        }
        #expect(try fixture.states(of: ids[0]) == [.failed])
        fixture.provider.answer { _ in .accepted }
        try await Self.read(ids[0], fixture)
        #expect(try await Self.sent(fixture, ids) == ["badge a 0 takes 0"])
    }

    @Test("a device that handles by itself what another one handled a moment ago is pushed nothing of it")
    func handledTwice() async throws {
        let fixture = try Self.fixture()
        try await fixture.register("d", platform: .android)
        let ids = try await fixture.tell(3, to: "a")
        try await Self.read(ids[0], fixture)
        try await Self.read(ids[1], fixture)
        try await Self.read(ids[0], on: "a", fixture)
        try await fixture.inboxes.delete(ids[1], fixture.alice, device: Fixture.token("d"))
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 1", "dismiss d takes 0"])
    }

    @Test("retention takes nothing away")
    func retention() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(3, to: "a")
        let inbox = try #require(try fixture.store.readBlocking { try $0.inboxes.id(app: "default", userID: "alice") })
        _ = try await fixture.store.write { transaction in
            try fixture.inboxes.delete([.init(inbox: inbox, through: ids[0])], in: transaction)
        }
        #expect(try await Self.sent(fixture, ids) == ["badge a 2"])
    }

    @Test("an alert that is too long for it goes without, and what is to leave stays owed")
    func tooLong() async throws {
        let fixture = try Self.fixture()
        var ids = try await fixture.tell(2, to: "a")
        try await Self.read(ids[0], fixture)
        ids.append(try await fixture.create(body: String(repeating: "x", count: 4_000)))
        #expect(try await Self.sent(fixture, ids) == ["alert a 2"])
        #expect(try await Self.sent(fixture, ids) == ["badge a 2 takes 0"])
    }

    @Test("a push that was in flight when the server was killed, or that failed, names it again")
    func killed() async throws {
        let fixture = try Self.fixture()
        let ids = try await fixture.tell(2, to: "a")
        try await Self.read(ids[0], fixture)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        let claimed = try await fixture.claimDue()
        #expect(claimed.map(\.message.dismissal) == [.ids([ids[0]])])
        _ = try await fixture.releaseLeases()
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 0"])
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 200)
        #expect(try await Self.sent(fixture, ids) == ["badge a 1 takes 0"])
        #expect(try await Self.sent(fixture, ids) == [])
    }
}
