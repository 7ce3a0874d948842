import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The result of a push's answer, which needs no database.
@Suite struct SettlementTests {
    private typealias Decide = InboxDecisionTests

    private static let notification = Decide.id(7)
    private static let settlements = DeliverySettlements(
        badgePushes: Decide.badgePushes, policy: OutcomePolicy(), random: { 0 })

    /// The answer to an alert's first attempt under lease 9.
    private static func answered(_ outcome: PushOutcome) -> AnsweredPush {
        let device = Decide.device(1, token: "a", lease: 9)
        let alert = PushAlert(
            Notification(
                id: notification, createdAt: Decide.later(-5_000), readAt: nil,
                content: NotificationContent(title: "t", body: "b", category: nil, deepLink: nil, data: nil),
                push: PushRequestOptions(push: true, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil)), nil)
        let badge = Badge(count: 3, unreadCount: 3, version: 1, updatedAt: Decide.now)
        let message = PushMessage(
            id: Decide.id(8), kind: .alert(alert), app: "shop", userID: "alice", device: device.target, badge: badge,
            sentAt: Decide.now)
        let delivery = Delivery(
            notificationID: notification, id: Decide.id(8), inbox: 1, attempts: 0, trace: nil, createdAt: Decide.later(-5_000))
        let push = ClaimedPush(message, device.schedule, shard: 0, delivery: delivery, attempt: 1)
        return AnsweredPush(push: push, answer: PushAnswer(outcome: outcome, status: 200, reason: nil), at: Decide.now)
    }

    private static func device(
        platform: DevicePlatform = .ios, lease: Int64 = 9, sending: UUIDv7? = notification, count: Int64 = 3,
        nextDueAt: Timestamp? = nil, isLeft: Bool = false
    ) -> AnsweredDevice {
        var schedule = Decide.schedule(1, platform: platform, lease: lease, sending: sending)
        schedule.attempted = true
        return AnsweredDevice(
            schedule: schedule, inbox: InboxState(unreadCount: count, armed: true), nextDueAt: nextDueAt, isLeft: isLeft,
            token: "a")
    }

    private static func settlement(
        _ outcome: PushOutcome, _ device: AnsweredDevice?
    ) -> DeliverySettlements.Settlement? {
        settlements.settlement(of: answered(outcome), device, isSpared: false, now: Decide.now)
    }

    @Test("an accepted alert tells its number, and nothing is due")
    func accepted() throws {
        let settlement = try #require(Self.settlement(.accepted, Self.device()))
        let schedule = try #require(settlement.schedule)
        #expect(settlement.delivery == .settle(.accepted))
        #expect(schedule.toldCount == 3 && schedule.toldAt == Decide.now && schedule.dueAt == nil && !schedule.isInFlight)
    }

    @Test("a number that changed under way is owed, unless an alert is due that brings it")
    func overtaken() throws {
        let alone = try #require(Self.settlement(.accepted, Self.device(count: 0))?.schedule)
        #expect(alone.badgeDueAt == Decide.now && alone.dueAt == Decide.now)
        let before = try #require(Self.settlement(.accepted, Self.device(count: 0, nextDueAt: Decide.later(-1)))?.schedule)
        #expect(before.badgeDueAt == nil && before.dueAt == Decide.later(-1))
        // It is another user's, and doesn't go.
        let left = try #require(
            Self.settlement(.accepted, Self.device(count: 0, nextDueAt: Decide.later(-1), isLeft: true))?.schedule)
        #expect(left.badgeDueAt == Decide.now && left.dueAt == Decide.later(-1))
    }

    @Test("a number that came due under way stays due, and one beside an alert that is due lets that go first")
    func due() throws {
        var schedule = Decide.schedule(1, platform: .ios, lease: 9, sending: Self.notification)
        schedule.attempted = true
        schedule.badgeDueAt = Decide.later(-5)
        for (alert, badge) in [(nil, Decide.later(-5)), (Decide.later(-3), Decide.later(-2))] as [(Timestamp?, Timestamp)] {
            let device = AnsweredDevice(
                schedule: schedule, inbox: InboxState(unreadCount: 4, armed: true), nextDueAt: alert, isLeft: false, token: "a")
            let settled = try #require(Self.settlement(.accepted, device)?.schedule)
            #expect(settled.badgeDueAt == badge && settled.dueAt == alert ?? badge)
            #expect(settled.isFree(at: Decide.now) == (alert == nil))
        }
    }

    @Test("an alert that is tried again makes its device due, unless one is due before")
    func retried() throws {
        let retry = Decide.later(60_000)
        for (next, due) in [(nil, retry), (Decide.later(90_000), retry), (Decide.later(5), Decide.later(5))] {
            // An Android device is owed no badge push, which would make it due as well.
            let settlement = try #require(
                Self.settlement(.unavailable(afterMilliseconds: nil), Self.device(platform: .android, nextDueAt: next)))
            #expect(settlement.delivery == .retry(dueAt: retry, isCounted: true))
            #expect(settlement.schedule?.badgeDueAt == nil && settlement.schedule?.dueAt == due)
        }
    }

    @Test("the badge push that is owed while an alert is tried again waits as long, and what was told is unknown")
    func retriedWithBadge() throws {
        let schedule = try #require(Self.settlement(.unavailable(afterMilliseconds: nil), Self.device())?.schedule)
        #expect(schedule.badgeDueAt == Decide.later(60_000) && schedule.dueAt == Decide.later(60_000))
        #expect(schedule.toldCount == nil)
    }

    @Test("an alert whose device left its user while it was under way isn't due again")
    func moved() throws {
        let device = Self.device(platform: .android, sending: nil)
        let schedule = try #require(Self.settlement(.unavailable(afterMilliseconds: nil), device)?.schedule)
        #expect(schedule.dueAt == nil && !schedule.isInFlight)
    }

    @Test("a push that another took over, or that is settled already, is left as it is")
    func takenOver() {
        for device in [Self.device(lease: 10), Self.device(lease: 0, sending: nil), Self.device(sending: Decide.id(9))] {
            #expect(Self.settlement(.accepted, device) == nil)
        }
    }

    @Test("a dead token takes its device along, and a device that is gone ends its alert")
    func gone() throws {
        let dead = try #require(Self.settlement(.tokenGone(since: nil), Self.device()))
        #expect(dead.dropsDevice && dead.schedule == nil && dead.delivery == .settle(.gone))
        let left = try #require(Self.settlement(.unavailable(afterMilliseconds: nil), nil))
        #expect(!left.dropsDevice && left.schedule == nil && left.delivery == .settle(.gone))
    }

    // MARK: - Loading

    @Test("what is loaded of an answered device is of the moment, also after changes in the same transaction")
    func loading() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let devices = try fixture.store.readBlocking { try $0.deviceTokens.devices(inbox: 1) }
        let id = try #require(devices.first).schedule.id
        for isAfterChange in [false, true] {
            let found = try await fixture.store.write(hints: [.device(id)]) { transaction -> [AnsweredDevice] in
                if isAfterChange {
                    let notification = Notification(
                        id: Decide.id(1), createdAt: transaction.now, readAt: nil,
                        content: NotificationContent(title: "t", body: "b", category: nil, deepLink: nil, data: nil),
                        push: .standard)
                    try transaction.notifications.insert(notification, inbox: 1)
                    try transaction.deliveries.insert(
                        NewDelivery(
                            Decide.id(101), notification: notification.id, device: id, inbox: 1, dueAt: transaction.now,
                            reason: nil, trace: nil))
                    try transaction.departedDevices.insert(id, from: 1, token: "a")
                }
                let first = try #require(try transaction.deviceTokens.answered(id))
                var schedule = first.schedule
                schedule.toldCount = (schedule.toldCount ?? 0) + 1
                try transaction.deviceTokens.store(schedule)
                return [first, try #require(try transaction.deviceTokens.answered(id))]
            }
            #expect(found[1].schedule.toldCount == (found[0].schedule.toldCount ?? 0) + 1)
            for device in found {
                #expect((device.nextDueAt != nil) == isAfterChange && device.isLeft == isAfterChange)
            }
        }
    }
}
