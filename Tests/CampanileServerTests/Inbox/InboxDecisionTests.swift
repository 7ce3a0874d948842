import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The decisions about an inbox and its devices, which need no database.
@Suite struct InboxDecisionTests {
    static let now = Timestamp(milliseconds: 1_795_000_000_000)
    static let badgePushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)

    static func id(_ number: UInt64) -> UUIDv7 { UUIDv7(high: UInt64(now.milliseconds) << 16, low: number) }

    static func later(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: now.milliseconds + milliseconds) }

    static func schedule(
        _ id: DeviceID, platform: DevicePlatform = .ios, told: Int64? = nil, lease: Int64 = 0, sending: UUIDv7? = nil
    ) -> DeviceSchedule {
        DeviceSchedule(
            id: id, inbox: 1, platform: platform, toldCount: told, toldAt: told.map { _ in now }, attempted: told != nil,
            badgeDueAt: nil, badgeAttempts: 0, dueAt: nil, lease: lease, sending: sending, busyUntil: nil,
            lastRegisteredAt: later(-1_000))
    }

    static func device(
        _ id: DeviceID, token: String, told: Int64? = nil, lease: Int64 = 0, seen: Int64 = -1_000
    ) -> Device {
        Device(
            schedule: schedule(id, told: told, lease: lease),
            target: PushDevice(token: token, platform: .ios, provider: .apns, environment: .production), appVersion: nil,
            seenAt: later(seen))
    }

    static func inbox(_ devices: [Device], listenedFor milliseconds: Int64 = 0) -> Inbox {
        Inbox(
            InboxRow(id: 1, state: InboxState(version: 5), listenedUntil: later(milliseconds)), devices: devices, now: now)
    }

    private static func order(_ number: UInt64 = 7, link: String? = nil) -> AlertOrder {
        let content = NotificationContent(title: "t", body: "b", category: nil, deepLink: link, data: nil)
        let push = PushRequestOptions(push: true, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil)
        let notification = Notification(id: id(number), createdAt: now, readAt: nil, content: content, push: push)
        return AlertOrder(notification: notification, app: "shop", userID: "alice", trace: nil)
    }

    private static func claims(
        _ leases: any PushLeases = AloneLease(9), rules: NotificationRules = NotificationRules()
    ) -> DeliveryClaims {
        DeliveryClaims(badgePushes: badgePushes, makeID: { id(100) }, leases: leases, rules: PerApp(all: rules))
    }

    @Test(
        "a change gives the badge its next version, and records itself and the badge while somebody listens", arguments: [0, 1])
    func recording(listenedFor milliseconds: Int64) {
        var inbox = Self.inbox([], listenedFor: milliseconds)
        inbox.apply(.created(Self.id(1))) { $0.created(Self.id(1)) }
        #expect(inbox.state.count == 1 && inbox.state.version == Self.now.milliseconds)
        #expect(inbox.events == (milliseconds == 0 ? [] : [.created(Self.id(1)), .badge]))
        #expect(inbox.changedState == inbox.state)
    }

    @Test("what is as it was loaded isn't saved")
    func unchanged() {
        var inbox = Self.inbox([Self.device(1, token: "a", told: 0)])
        inbox.apply(nil) { $0.cleared() }
        Self.badgePushes.countChanged(&inbox)
        inbox.noteSeen(0)
        #expect(inbox.changedState == nil && inbox.changedSchedules.isEmpty && inbox.seen.isEmpty && !inbox.isPushDue)
    }

    @Test("a device is found by its token before one whose token differs in case, and Apple's in any case")
    func naming() {
        let inbox = Self.inbox([Self.device(1, token: "ab"), Self.device(2, token: "AB")])
        #expect(inbox.device("AB") == 1 && inbox.device("ab") == 0 && inbox.device("aB") == 0 && inbox.device("c") == nil)
    }

    @Test("a device that names itself is noted once a day")
    func seen() {
        let day = Limits.seenMilliseconds
        var inbox = Self.inbox([Self.device(1, token: "a", seen: -day), Self.device(2, token: "b", seen: 1 - day)])
        for place in 0..<2 { inbox.noteSeen(place) }
        #expect(inbox.seen == [1] && inbox.devices.allSatisfy { !$0.isUnseen(at: Self.now) })
        var again = Self.inbox(inbox.devices)
        again.noteSeen(0)
        #expect(again.seen.isEmpty)
    }

    @Test("a new number is owed to all that were told another, but not to the one that acts")
    func owed() {
        var inbox = Self.inbox([
            Self.device(1, token: "a", told: 0), Self.device(2, token: "b", told: 1), Self.device(3, token: "c", told: 4),
            Self.device(4, token: "d", told: 0),
        ])
        inbox.apply(.created(Self.id(1))) { $0.created(Self.id(1)) }
        Self.badgePushes.countChanged(&inbox, except: 3)
        #expect(inbox.changedSchedules.map(\.id) == [1, 3] && inbox.isPushDue)
        #expect(inbox.changedSchedules.allSatisfy { $0.badgeDueAt == Self.later(Limits.syncDelayMilliseconds) })
    }

    // MARK: - Alerts

    @Test("an alert goes at once to the devices that are free and have a place, and is owed to the others")
    func alerts() {
        var inbox = Self.inbox([
            Self.device(1, token: "a"), Self.device(2, token: "b", lease: 9), Self.device(3, token: "c"),
            Self.device(4, token: "d"),
        ])
        inbox.apply(.created(Self.id(7))) { $0.created(Self.id(7)) }
        var places = 2
        let claimed = Self.claims().claim(Self.order(), of: &inbox) { _ in
            places -= 1
            return places >= 0
        }
        #expect(places == -1, "a device that isn't free asks for no place")
        inbox.owe(Self.order()) { Self.id(200) }
        #expect(claimed.map(\.device) == [1, 3] && claimed.allSatisfy { $0.lease == 9 && $0.toldCount == 1 })
        #expect(inbox.deliveries.map(\.key.device) == [1, 3, 2, 4])
        #expect(inbox.deliveries.map(\.state) == [.sending, .sending, .owed, .owed])
        #expect(inbox.changedSchedules.map(\.id) == [1, 3, 4], "the push in flight to 2 looks for what is owed")
        #expect(inbox.changedSchedules.map(\.sending) == [Self.id(7), Self.id(7), nil])
        #expect(inbox.changedSchedules.map(\.dueAt) == [nil, nil, Self.now])
    }

    @Test("an alert to a device of another node's takes no place, and is owed")
    func elsewhere() {
        var inbox = Self.inbox([Self.device(1, token: "a")])
        let claimed = Self.claims(NoLeases()).claim(Self.order(), of: &inbox) { _ in
            Issue.record("a place was taken, and nobody gives it back")
            return true
        }
        inbox.owe(Self.order()) { Self.id(200) }
        #expect(claimed.isEmpty && inbox.deliveries.map(\.state) == [.owed] && inbox.isPushDue)
    }

    @Test("an alert for an app that is too old takes no place")
    func tooOld() {
        let tree = DeepLinkTree([.init("orders", minimumVersion: .init(ios: AppVersion("2"), otherwise: .noPush))])
        var inbox = Self.inbox([Self.device(1, token: "a")])
        let claims = Self.claims(rules: NotificationRules(deepLinks: tree))
        let claimed = claims.claim(Self.order(link: "/orders"), of: &inbox) { _ in
            Issue.record("a place was taken, and nobody gives it back")
            return true
        }
        #expect(claimed.isEmpty && inbox.deliveries.isEmpty && inbox.changedSchedules.isEmpty)
        #expect(claims.claim(Self.order(), of: &inbox) { _ in true }.count == 1, "without the link it goes")
    }

    @Test("a notification of a user without devices says that nothing is owed")
    func noDevices() {
        var inbox = Self.inbox([])
        #expect(Self.claims().claim(Self.order(), of: &inbox) { _ in true }.isEmpty)
        inbox.owe(Self.order()) { Self.id(200) }
        #expect(inbox.deliveries.map(\.reason) == ["no_devices"] && !inbox.isPushDue)
    }
}

/// The leases of a node that has no shard.
private struct NoLeases: PushLeases {
    var node: UUIDv7? { nil }
    var areFirst: Bool { false }
    var followOneClock: Bool { false }
    func forClaiming(_ shard: Int16) -> Int64? { nil }
    func claimable() -> [Int16]? { [] }
    func sendingEnds(_ shard: Int16, lease: Int64) -> Int64 { 0 }
    func transactions<Part>(of plan: [Part]) -> [[Part]] { [plan] }
    func pause(besideWrites group: Int) -> Int64? { nil }
}
