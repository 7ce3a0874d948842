package import CampanileCore

/// One installation of an app, as its owner would see it.
package struct Phone: Sendable {
    /// An entry of the notification centre.
    package struct Notification: Sendable {
        package let pushID: String
        package let collapseID: ExactText?
        package let alert: PhoneAlert
        /// Milliseconds since 1970.
        package let shownAt: Int64

        package var title: String { alert.title }
        package var body: String { alert.body }
        package var deepLink: String? { alert.deepLink }
    }

    /// A push that reached the phone.
    package struct Applied: Sendable {
        package let pushID: String
        package let kind: PushKind
        package let badge: Int64?
        package let badgeVersion: Int64?
        package let at: Int64
    }

    /// The life of the installation's ID at Firebase.
    package enum InstallationID: String, Sendable {
        /// The app's registration token alone is known.
        case none
        case registered
        /// The app, or an SDK in it, called `getToken()` after it had registered the ID.
        case dead
    }

    package let token: String
    package internal(set) var installationID = InstallationID.none
    package internal(set) var platform: PhonePlatform
    package internal(set) var environment: SimulatedEnvironment
    /// The bundle id or the Firebase project; nil until its first push.
    package internal(set) var app: String?
    package internal(set) var isOnline = true
    /// The time at which the token died, in milliseconds since 1970; nil while it is valid.
    package internal(set) var goneSince: Int64?
    /// The icon's number; 0 is an icon without one.
    package internal(set) var badge: Int64 = 0
    /// Oldest first.
    package internal(set) var notifications: [Notification] = []
    /// The greatest `badgeVersion` that arrived.
    package internal(set) var badgeVersion: Int64?
    /// Pushes that set the icon although their `badgeVersion` was smaller than an earlier one's.
    package internal(set) var olderBadges = 0
    /// The number of times that the app was woken in the background.
    package internal(set) var wakes = 0
    /// Pushes that reached the phone.
    package internal(set) var received = 0
    /// The newest of them, oldest first.
    package internal(set) var history: [Applied] = []
    /// The pushes that the service keeps until the phone is on again, oldest first.
    var waiting: [PhonePush] = []
    /// Pushes that the service dropped: replaced while they waited, or too old when the phone came back.
    package internal(set) var dropped = 0
    package var waitingCount: Int { waiting.count }

    init(token: String, platform: PhonePlatform, environment: SimulatedEnvironment) {
        self.token = token
        self.platform = platform
        self.environment = environment
    }

    /// - Parameter historyLimit: the most pushes in the history.
    mutating func apply(_ push: PhonePush, now: Int64, historyLimit: Int) {
        received += 1
        if push.wakesApp { wakes += 1 }
        if let alert = push.alert { show(alert, of: push, now: now) }
        let isOlder = push.badgeVersion.flatMap { version in badgeVersion.map { version < $0 } } ?? false
        // The service extension puts the newest number in the place of an older one, so the icon stays as it is.
        if let number = isOlder && push.isMutable ? nil : push.badge {
            badge = number
            if isOlder { olderBadges += 1 }
            // iOS removes its notifications with the number; an Android app that draws its own does the same.
            if number == 0 { notifications.removeAll() }
        } else if platform == .android, push.alert != nil {
            // Most launchers count for themselves.
            badge = Int64(notifications.count)
        }
        if let version = push.badgeVersion { badgeVersion = max(badgeVersion ?? version, version) }
        history.append(
            Applied(pushID: push.id, kind: push.kind, badge: push.badge, badgeVersion: push.badgeVersion, at: now))
        if history.count > historyLimit { history.removeFirst(history.count - historyLimit) }
    }

    private mutating func show(_ alert: PhoneAlert, of push: PhonePush, now: Int64) {
        let replaced = platform == .android ? push.tag : push.collapseID
        if let replaced { notifications.removeAll { $0.collapseID == replaced } }
        notifications.append(Notification(pushID: push.id, collapseID: replaced, alert: alert, shownAt: now))
        if notifications.count > SimulatorLimits.notifications { notifications.removeFirst() }
    }

    // MARK: - What waits while the phone is off

    /// FCM keeps this many messages for a device, of four collapse keys at most; beyond, it drops all of them.
    static let androidWaiting = 100
    static let androidCollapseKeys = 4

    mutating func keep(_ push: PhonePush) {
        guard push.keptUntil != nil else {
            dropped += 1
            return
        }
        if platform == .ios {
            // APNs keeps one push for each app: the newest.
            dropped += waiting.count
            waiting = [push]
        } else {
            keepOnAndroid(push)
        }
    }

    private mutating func keepOnAndroid(_ push: PhonePush) {
        if let key = push.collapseID {
            let before = waiting.count
            waiting.removeAll { $0.collapseID == key }
            dropped += before - waiting.count
            let keys = Set(waiting.compactMap(\.collapseID))
            if keys.count >= Phone.androidCollapseKeys, let oldest = waiting.firstIndex(where: { $0.collapseID != nil }) {
                waiting.remove(at: oldest)
                dropped += 1
            }
        }
        if waiting.count >= Phone.androidWaiting {
            dropped += waiting.count
            waiting.removeAll()
        }
        waiting.append(push)
    }

    /// Switches the phone on: delivers the waiting pushes that aren't too old.
    mutating func comeOnline(now: Int64, historyLimit: Int) {
        isOnline = true
        let arrived = waiting
        waiting.removeAll()
        for push in arrived {
            if let until = push.keptUntil, until > now {
                apply(push, now: now, historyLimit: historyLimit)
            } else {
                dropped += 1
            }
        }
    }
}

extension Phone {
    /// The form for the control calls.
    package var json: JSONValue {
        .object([
            .init("token", .string(token)),
            .init("installation_id", .string(installationID.rawValue)),
            .init("platform", .string(platform.rawValue)),
            .init("environment", .string(environment.rawValue)),
            .init("app", app.map { .string($0) } ?? .null),
            .init("online", .bool(isOnline)),
            .init("state", goneSince == nil ? "known" : "gone"),
            .init("gone_since_ms", goneSince.map { .integer($0) } ?? .null),
            .init("badge", .integer(badge)),
            .init("badge_version", badgeVersion.map { .integer($0) } ?? .null),
            .init("notifications", .array(notifications.map(\.json))),
            .init("waiting", .integer(Int64(waiting.count))),
            .init("received", .integer(Int64(received))),
            .init("dropped", .integer(Int64(dropped))),
            .init("wakes", .integer(Int64(wakes))),
            .init("older_badges", .integer(Int64(olderBadges))),
            .init("history", .array(history.map(\.json))),
        ])
    }
}

extension Phone.Notification {
    var json: JSONValue {
        let identity: [JSONValue.Member] = [
            .init("apns_id", .string(pushID)), .init("collapse_id", collapseID.map { .string($0.text) } ?? .null),
        ]
        let time = JSONValue.Member("shown_at", .string(Timestamp(milliseconds: shownAt).description))
        return .object(identity + alert.json + [time])
    }
}

extension Phone.Applied {
    var json: JSONValue {
        .object([
            .init("apns_id", .string(pushID)),
            .init("kind", .string(kind.rawValue)),
            .init("badge", badge.map { .integer($0) } ?? .null),
            .init("badge_version", badgeVersion.map { .integer($0) } ?? .null),
            .init("at", .string(Timestamp(milliseconds: at).description)),
        ])
    }
}
