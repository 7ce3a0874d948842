import CampanileCore
import Push
import Synchronization
import SystemSupport

/// `POST /notifications?dry_run=true`: the pushes that a creation would send, as each of the user's devices would get them. Nothing is
/// stored and nothing is sent. A few at once, each on a thread of its own, and others wait: a user may have many devices.
final class DryRun: Sendable {
    private let database: Store
    private let ids: UUIDv7Generator
    private let badgePushes: BadgePushes
    let rules: PerApp<NotificationRules>
    private let providers: PushProviders
    private let mostWaiting: Int
    private let state = Mutex(State())

    private struct State {
        var underWay = 0
        var line: [CheckedContinuation<Bool, Never>] = []
    }

    init(
        database: Store, ids: UUIDv7Generator, badgePushes: BadgePushes, rules: PerApp<NotificationRules>,
        providers: PushProviders, mostWaiting: Int = Limits.waitingDryRuns
    ) {
        self.database = database
        self.ids = ids
        self.badgePushes = badgePushes
        self.rules = rules
        self.providers = providers
        self.mostWaiting = mostWaiting
    }

    struct Push: Sendable {
        /// Its device has the end of the token in the token's place.
        let message: PushMessage
        let request: PushRequest
    }

    /// A device that would get nothing.
    struct Withheld: Sendable {
        let device: PushDevice
        let reason: String
    }

    /// - Throws: `ClientError` 503 for one too many.
    func run(_ new: NewNotification, userID: String, app: String, at now: Timestamp) async throws -> ([Push], [Withheld]) {
        let isRefused = await withCheckedContinuation { (turn: CheckedContinuation<Bool, Never>) in take(turn) }
        guard !isRefused else { throw ClientError.unavailable("\(mostWaiting) dry runs wait for their turn; try again.") }
        defer { pass() }
        return try await SystemThread.run(name: "dry-run") { [self] in try build(new, userID, app, now) }
    }

    /// Takes a place, or waits for one in the order of the calls.
    /// - Parameter turn: is told whether the line is too long.
    private func take(_ turn: CheckedContinuation<Bool, Never>) {
        let isRefused: Bool? = state.withLock { state in
            if state.underWay < Limits.dryRuns {
                state.underWay += 1
                return false
            }
            guard state.line.count < mostWaiting else { return true }
            state.line.append(turn)
            return nil
        }
        if let isRefused { turn.resume(returning: isRefused) }
    }

    /// Passes a place on.
    private func pass() {
        let next: CheckedContinuation<Bool, Never>? = state.withLock { state in
            guard !state.line.isEmpty else {
                state.underWay -= 1
                return nil
            }
            return state.line.removeFirst()
        }
        next?.resume(returning: false)
    }

    private func build(
        _ new: NewNotification, _ userID: String, _ app: String, _ now: Timestamp
    ) throws -> ([Push], [Withheld]) {
        let (state, sum, devices) = try database.readBlocking { reading in
            let inbox = try reading.inboxes.id(app: app, userID: userID)
            let state =
                try inbox.map { try reading.inboxes.state($0) } ?? InboxState(policy: reading.programState.badgePolicy(of: app))
            try reading.externalIDs.requireFree(new, [userID], app: app)
            if new.badge != nil, state.policy != .given { throw ClientError.badgeIsNotGiven(state.policy) }
            let sum = try new.badge.flatMap { given in
                try given.sum(
                    after: inbox.map { try reading.tenantBadges.before(given.tenant, of: $0) }
                        ?? .init(tenants: 0, sum: 0, own: nil))
            }
            return (state, sum, try inbox.map { try reading.deviceTokens.devices(inbox: $0) } ?? [])
        }
        let notification = Notification(
            id: ids.next(after: state.newestID), createdAt: now, readAt: nil, content: new.content, push: new.push.begun(at: now))
        var after = state
        after.created(notification.id)
        if let sum { after.gave(sum) }
        after.stamp(before: state, now: now)
        let badge = after.badge
        let terms = rules[app].terms(of: new.content)
        var (pushes, withheld): ([Push], [Withheld]) = ([], [])
        for device in devices {
            let target = device.target.redacted
            guard notification.push.isOwed(at: now) else {
                let reason: NothingOwed = new.push.push ? .expired : .pushFalse
                withheld.append(Withheld(device: target, reason: reason.rawValue))
                continue
            }
            guard
                let offer = DeliveryClaims.offer(
                    notification, terms, platform: target.platform, appVersion: device.appVersion)
            else {
                withheld.append(Withheld(device: target, reason: DeliveryReason.appVersion.rawValue))
                continue
            }
            let message = PushMessage(
                id: ids.next(), kind: .alert(offer.alert), app: app, userID: userID, device: target, badge: badge, sentAt: now,
                dismissal: device.schedule.dismissals?.next(isAlert: true)
            ).fitted()
            pushes.append(Push(message: message, request: providers.request(message)))
        }
        return (pushes, withheld)
    }
}

extension PushDevice {
    fileprivate var redacted: PushDevice {
        PushDevice(
            token: String(token.suffix(6)), kind: kind, platform: platform, provider: provider, environment: environment
        )
    }
}
