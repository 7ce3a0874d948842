import CampanileCore
import Push
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Alerts: what is sent, what is superseded, and what an answer does.
@Suite struct AlertTests {
    @Test("an alert whose notification was read before the first attempt is superseded")
    func readBefore() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        #expect(try await fixture.sent().isEmpty)
        #expect(try fixture.states(of: id) == [.superseded])
    }

    @Test("an alert whose notification was deleted or has expired before the first attempt is superseded")
    func deletedOrExpired() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let deleted = try await fixture.create()
        let expired = try await fixture.create(expiresAt: Timestamp(milliseconds: fixture.clock.now.milliseconds + 500))
        try await fixture.inboxes.delete(deleted, fixture.alice, device: nil)
        fixture.clock.advance(seconds: 1)
        #expect(try await fixture.sent().isEmpty)
        #expect(try fixture.states(of: deleted) == [.superseded])
        #expect(try fixture.states(of: expired) == [.superseded])
    }

    @Test("an alert that waited shows all of its notification, also behind one that is settled on the way")
    func whole() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let data = "{\"key\":\"\(String(repeating: "x", count: 4 * Limits.dataInRowBytes))\"}"
        let expiresAt = Timestamp(milliseconds: fixture.clock.now.milliseconds + 60_000)
        for isBehind in [false, true] {
            if isBehind {
                let read = try await fixture.create()
                _ = try await fixture.inboxes.setRead(true, read, fixture.alice, device: nil)
            }
            let id = try await fixture.create(data: data, expiresAt: expiresAt)
            _ = try await fixture.sent()
            let kinds = fixture.provider.messages.map(\.kind)
            guard kinds.count == 1, case .alert(let alert)? = kinds.first else {
                Issue.record("\(kinds)")
                continue
            }
            #expect(alert.notificationID == id)
            #expect((alert.title, alert.body) == ("Title", "Body"))
            #expect(alert.data == data)
            #expect(alert.sound == "default")
            #expect(alert.expiresAt == expiresAt)
        }
    }

    @Test("the badge of an alert is the number of the moment of sending, and 0 is left out")
    func badgeOfTheMoment() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2", "alert a 2"])
        try await fixture.create()
        try await fixture.open()
        #expect(try await fixture.sent() == ["alert a 0", "badge a 0"])
        let alert = try #require(fixture.provider.messages.first)
        let payload = APNsPayload.request(alert, options: PayloadOptions(topics: [:])).payload
        #expect(payload["aps"]?["badge"] == nil)
        #expect(payload["badgeVersion"] == .integer(try fixture.badge().version))
    }

    @Test("a provider that fails for one token stops no other")
    func oneFails() async throws {
        let fixture = try Fixture()
        for letter in "abc" { try await fixture.register(letter) }
        fixture.provider.answer { message in
            message.device.token.hasPrefix("b") ? PushAnswer(outcome: .rejected, status: 400, reason: "BadTopic") : .accepted
        }
        let id = try await fixture.create()
        #expect(try await fixture.sent().count >= 3)
        #expect(try fixture.states(of: id) == [.accepted, .rejected, .accepted])
    }

    @Test("at most one push per device token is in flight; what is owed next is computed after the answer")
    func oneInFlight() async throws {
        let fixture = try Fixture()
        for letter in "abcd" { try await fixture.register(letter) }
        let flying = Mutex<Set<String>>([])
        let isOverlapping = Atomic<Bool>(false)
        fixture.provider.answer { message in
            if !flying.withLock({ $0.insert(message.device.token).inserted }) {
                isOverlapping.store(true, ordering: .relaxed)
            }
            await Task.yield()
            _ = flying.withLock { $0.remove(message.device.token) }
            return .accepted
        }
        for _ in 0..<5 { try await fixture.create() }
        #expect(try await fixture.sent().count == 20)
        let overlapped = isOverlapping.load(ordering: .relaxed)
        #expect(!overlapped)
    }

    @Test("a clearing that comes while an alert is in flight follows its answer")
    func clearingDuringFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.clearDuringFirstPush(device: nil)
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "badge a 0"])
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1", "badge a 0"])
    }

    @Test("the device that cleared the badge while a push to it was in flight is cleared again after it")
    func toldDuringFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.clearDuringFirstPush(device: Fixture.token("a"))
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "badge a 0"])
    }

    @Test("a retry keeps the id and waits for its time; its device gets a newer badge push meanwhile, and none for the failure")
    func retry() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer { message in
            if case .alert = message.kind {
                return PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: "ServiceUnavailable")
            }
            return .accepted
        }
        let id = try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1"])
        let first = try #require(fixture.provider.messages.first?.id)
        #expect(try fixture.states(of: id) == [.owed])
        fixture.clock.advance(seconds: 5)
        #expect(try await fixture.sent().isEmpty)
        try await fixture.create(push: false)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 70)
        #expect(try await fixture.sent() == ["alert a 2"])
        #expect(fixture.provider.messages.first?.id == first)
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("a delivery fails for good after the last attempt")
    func attemptsEnd() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer { _ in PushAnswer(outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: nil) }
        let id = try await fixture.create()
        var attempts = 0
        for _ in 0..<20 {
            attempts += try await fixture.sent().filter { $0.hasPrefix("alert") }.count
            fixture.clock.advance(seconds: 3_600)
        }
        #expect(attempts == Limits.deliveryAttempts)
        #expect(try fixture.states(of: id) == [.failed])
    }

    private static func died(at milliseconds: Int64) -> PushAnswer {
        PushAnswer(outcome: .tokenGone(since: Timestamp(milliseconds: milliseconds)), status: 410, reason: "Unregistered")
    }

    @Test("a dead token leaves with all that was owed to it, unless the app registered after the moment it died")
    func tokenGone() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let registered = fixture.clock.now
        fixture.provider.answer { _ in Self.died(at: registered.milliseconds - 1) }
        let first = try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.registry.list(fixture.alice).count == 1)
        #expect(try fixture.states(of: first) == [.owed])
        fixture.provider.answer { _ in Self.died(at: registered.milliseconds + 1) }
        let second = try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.registry.list(fixture.alice).isEmpty)
        #expect(try fixture.states(of: first) == [.gone])
        #expect(try fixture.states(of: second) == [.gone])
    }

    @Test("an alert in flight when its token moved never goes to the new owner, also not after a restart")
    func movedInFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await fixture.claimDue().count == 1)
        try await fixture.register("a", User(app: "default", userID: "bob"))
        #expect(try fixture.states(of: id) == [.gone])
        #expect(try await fixture.sent().isEmpty, "nothing joins what is in flight")
        #expect(try await fixture.releaseLeases() == 1)
        #expect(try await fixture.sent() == ["badge a 0"])
        #expect(try fixture.states(of: id) == [.gone])
    }

    @Test("an alert in flight when its token was deleted is settled, also when the server is killed before the answer")
    func deletedInFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.claimDue()
        try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
        #expect(try fixture.states(of: id) == [.gone])
        #expect(try await fixture.releaseLeases() == 0)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("what was in flight when the server was killed goes again with the same id, or is given up if it is set so")
    func killedInFlight() async throws {
        for resends in [true, false] {
            let fixture = try Fixture()
            try await fixture.register("a")
            let id = try await fixture.create()
            let lost = try await fixture.claimDue()
            #expect(try await fixture.sent().isEmpty)
            #expect(try await fixture.releaseLeases(resendsUnanswered: resends) == 1)
            // What the device was told isn't known: without the alert, a badge push tells it.
            #expect(try await fixture.sent() == [resends ? "alert a 1" : "badge a 1"])
            if resends { #expect(fixture.provider.messages.map(\.id) == lost.map(\.message.id)) }
            #expect(try fixture.states(of: id) == [resends ? .accepted : .failed])
        }
    }

    @Test("what was in flight when the server was killed goes before what came meanwhile")
    func killedFirst() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        let lost = try await fixture.claimDue()
        for _ in 0..<3 {
            fixture.clock.advance(milliseconds: 1_000)
            try await fixture.create()
        }
        #expect(try await fixture.releaseLeases() == 1)
        #expect(try await fixture.sent().count == 4)
        #expect(fixture.provider.messages.first?.id == lost.first?.message.id)
    }

    @Test("what was in flight when the server was killed goes at once, also if another alert waits for its next attempt")
    func killedBesideRetry() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer { _ in PushAnswer(outcome: .unanswered, status: nil, reason: nil) }
        let waiting = try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1"])
        fixture.provider.answer { _ in .accepted }
        try await fixture.create()
        let lost = try await fixture.claimDue()
        #expect(try await fixture.releaseLeases() == 1)
        #expect(try await fixture.sent() == ["alert a 2"])
        #expect(fixture.provider.messages.map(\.id) == lost.map(\.message.id))
        #expect(try fixture.states(of: waiting) == [.owed])
    }

    @Test("the leases of the running start are its own: a walk that finds them late leaves them alone")
    func ownLease() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        #expect(try await fixture.claimDue(lease: Fixture.lease).count == 1)
        #expect(try await fixture.releaseLeases() == 0)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("a clearing that a crash swallowed is sent again, also when the number is back at what was told before")
    func clearingSwallowed() async throws {
        let fixture = try Fixture()
        let id = try await fixture.tell(1, to: "a")[0]
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        #expect(try await fixture.claimDue().map(\.message.summary) == ["badge a 0"])
        _ = try await fixture.inboxes.setRead(false, id, fixture.alice, device: nil)
        _ = try await fixture.releaseLeases()
        fixture.clock.advance(seconds: 3)
        #expect(try await fixture.sent() == ["badge a 1"])
    }

    @Test("a push claimed where it is created goes like any other, and what is created meanwhile follows its answer")
    func claimedAtCreation() async throws {
        let fixture = try Fixture(claimsAtCreation: true)
        try await fixture.register("a")
        let gate = Watched<[CheckedContinuation<Void, Never>]>([])
        fixture.provider.answer { _ in
            await withCheckedContinuation { waiting in gate.change { $0.append(waiting) } }
            return .accepted
        }
        let first = try await fixture.create()
        let second = try await fixture.create()
        // It goes in a task of its own.
        await gate.until { !$0.isEmpty }
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1"])
        #expect(try fixture.states(of: first) == [.sending])
        #expect(try fixture.states(of: second) == [.owed])
        fixture.provider.answer { _ in .accepted }
        for waiting in gate.value { waiting.resume() }
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1", "alert a 2"])
        #expect(try fixture.states(of: first) == [.accepted])
        #expect(try fixture.states(of: second) == [.accepted])
    }

    @Test(
        "a badge push that is refused for good is not repeated until the badge changes",
        arguments: [
            PushOutcome.rejected, .unavailable(afterMilliseconds: nil),
        ])
    func refusedBadge(_ outcome: PushOutcome) async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        fixture.provider.answer { _ in PushAnswer(outcome: outcome, status: 400, reason: nil) }
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        var attempts = 0
        for _ in 0..<20 {
            attempts += try await fixture.sent().count
            fixture.clock.advance(seconds: 3_600)
        }
        #expect(attempts == (outcome == .rejected ? 1 : Limits.deliveryAttempts))
        fixture.provider.answer { _ in .accepted }
        try await fixture.create(push: false)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
    }

    @Test("an alert that expired before it went leaves its number to a badge push")
    func expiredTellsNumber() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        try await fixture.create(expiresAt: Timestamp(milliseconds: fixture.clock.now.milliseconds + 500))
        fixture.clock.advance(seconds: 1)
        #expect(try await fixture.sent().isEmpty)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
    }

    @Test("a token called dead without a moment stays if the app registered while the push was under way")
    func goneDuringFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let clock = fixture.clock
        fixture.registerDuringPush {
            clock.advance(seconds: 1)
            return clock.now
        }
        try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.registry.list(fixture.alice).count == 1)
    }

    @Test("a registration that waited for its turn while a push was claimed counts as later than the push")
    func registrationBehindClaim() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        // The request came in before the push was claimed, and is written after it in the same millisecond.
        let asked = fixture.clock.now
        fixture.clock.advance(seconds: 1)
        fixture.registerDuringPush { asked }
        try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.registry.list(fixture.alice).count == 1)
    }

    @Test("a registration while a push is under way counts as later than the push, also when the clock was set back")
    func registrationByEarlierClock() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let registry = fixture.registry
        let alice = fixture.alice
        let clock = fixture.clock
        let outcome = Mutex(PushOutcome.tokenGone(since: nil))
        fixture.provider.answer { message in
            clock.jump(seconds: -1)
            let device = DeviceToken(
                token: message.device.token, platform: .ios, provider: .apns, environment: .sandbox, appVersion: nil,
                locale: nil, lastRegisteredAt: clock.now)
            _ = try? await registry.register(device, alice)
            return .saying(outcome.withLock(\.self))
        }
        try await fixture.create()
        _ = try await fixture.sent()
        #expect(try fixture.registry.list(alice).map(\.environment) == [.sandbox])
        outcome.withLock { $0 = .acceptedElsewhere(.production) }
        clock.advance(seconds: 120)
        #expect(try await fixture.sent() == ["alert a 1"])
        #expect(try fixture.registry.list(alice).map(\.environment) == [.sandbox])
    }

    @Test("a misconfigured app uses up no attempts, and its answers don't grow without bound")
    func misconfigured() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer { _ in PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") }
        let id = try await fixture.create()
        for _ in 0..<30 {
            _ = try await fixture.sent()
            fixture.clock.advance(seconds: 3_600)
        }
        let delivery = try #require(
            try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }.first)
        #expect(delivery.state == .owed && delivery.attempts == 0)
        let answers = try JSONValue(parsing: Array((delivery.answers ?? "").utf8)).array
        #expect(answers.count == Limits.answersPerDelivery)
        fixture.provider.answer { _ in .accepted }
        #expect(try await fixture.sent() == ["alert a 1"])
        #expect(try fixture.states(of: id) == [.accepted])
    }
}

extension Fixture {
    func states(of notification: UUIDv7) throws -> [DeliveryState] {
        try store.readBlocking { try $0.deliveries.list(notification: notification) }.map(\.state)
    }

    /// The badge is cleared while the first push is under way.
    fileprivate func clearDuringFirstPush(device: String?) {
        let isFirst = Atomic<Bool>(true)
        provider.answer { [inboxes, alice] _ in
            if isFirst.exchange(false, ordering: .relaxed) { _ = try? await inboxes.clear(alice, device: device) }
            return .accepted
        }
    }

    /// The app registers at this time while a push is under way, whose answer calls the token dead without a moment.
    fileprivate func registerDuringPush(at time: @escaping @Sendable () -> Timestamp) {
        provider.answer { [registry, alice] message in
            let device = DeviceToken(
                token: message.device.token, platform: .ios, provider: .apns, environment: .production, appVersion: nil,
                locale: nil, lastRegisteredAt: time())
            _ = try? await registry.register(device, alice)
            return PushAnswer(outcome: .tokenGone(since: nil), status: 400, reason: "BadDeviceToken")
        }
    }
}
