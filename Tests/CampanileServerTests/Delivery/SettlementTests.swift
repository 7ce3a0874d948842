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
        lease: Int64 = 9, sending: UUIDv7? = notification, count: Int64 = 3, nextDueAt: Timestamp? = nil, isLeft: Bool = false
    ) -> AnsweredDevice {
        var schedule = Decide.schedule(1, lease: lease, sending: sending)
        schedule.attempted = true
        return AnsweredDevice(
            schedule: schedule, inbox: InboxState(unreadCount: count, armed: true), nextDueAt: nextDueAt, isLeft: isLeft)
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

    @Test("an alert that is tried again makes its device due, unless one is due before")
    func retried() throws {
        let retry = Decide.later(60_000)
        for (next, due) in [(nil, retry), (Decide.later(90_000), retry), (Decide.later(5), Decide.later(5))] {
            let settlement = try #require(
                Self.settlement(.unavailable(afterMilliseconds: nil), Self.device(nextDueAt: next)))
            #expect(settlement.delivery == .retry(dueAt: retry, isCounted: true))
            // The badge push that is owed meanwhile waits as long.
            #expect(settlement.schedule?.dueAt == min(due, settlement.schedule?.badgeDueAt ?? due))
            #expect(settlement.schedule?.toldCount == nil)
        }
    }

    @Test("an alert whose device left its user while it was under way isn't due again")
    func moved() throws {
        let settlement = try #require(
            Self.settlement(.deviceBusy(afterMilliseconds: nil), Self.device(sending: nil, nextDueAt: nil)))
        let schedule = try #require(settlement.schedule)
        #expect(schedule.dueAt == schedule.badgeDueAt.map { max($0, schedule.busyUntil ?? $0) })
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
}
