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
    /// Ended by its user: iOS wakes the app no more, Android delivers nothing, until the user opens it.
    package internal(set) var isStopped = false
    package internal(set) var isInForeground = false
    /// True if the app has CampanileClient's notification service extension (iOS).
    package internal(set) var hasExtension = true
    /// True in Doze (Android): messages of normal priority wait.
    package internal(set) var isAsleep = false
    /// FCM treats the app's messages of high priority as normal ones, because it showed nothing for one (Android).
    package internal(set) var isDemoted = false
    /// The times at which iOS woke the app in the last hour, in milliseconds since 1970; kept where there is a budget.
    var wakeTimes: [Int64] = []
    /// The dismissals that the app's library remembers.
    var handled = HandledNotifications()
    /// The time at which the token died, in milliseconds since 1970; nil while it is valid.
    package internal(set) var goneSince: Int64?
    /// The icon's number; 0 is an icon without one.
    package internal(set) var badge: Int64 = 0
    /// Oldest first.
    package internal(set) var notifications: [Notification] = []
    /// The greatest `badgeVersion` that arrived.
    package internal(set) var badgeVersion: Int64?
    /// Pushes that were sent to take something away, and named nothing that the phone showed.
    package internal(set) var idleDismissals = 0
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

    // MARK: - What waits while the phone is off

    /// FCM keeps this many messages for a device, of four collapse keys at most; beyond, it drops all of them.
    static let androidWaiting = 100
    static let androidCollapseKeys = 4

    mutating func keep(_ push: PhonePush, _ rules: PhoneRules) {
        guard push.keptUntil != nil else {
            dropped += 1
            return
        }
        if platform == .ios {
            if rules.stored == .one {
                dropped += waiting.count
                waiting = []
            } else if let key = push.collapseID {
                waiting.removeAll { $0.collapseID == key }
            }
            waiting.append(push)
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

    /// Delivers the waiting pushes that aren't too old, as the phone is on or awake again.
    mutating func takeWaiting(now: Int64, historyLimit: Int, rules: PhoneRules) {
        guard isOnline else { return }
        let arrived = waiting
        waiting.removeAll()
        for push in arrived {
            if let until = push.keptUntil, until > now {
                apply(push, now: now, historyLimit: historyLimit, rules: rules)
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
            .init("stopped", .bool(isStopped)),
            .init("foreground", .bool(isInForeground)),
            .init("extension", .bool(hasExtension)),
            .init("asleep", .bool(isAsleep)),
            .init("demoted", .bool(isDemoted)),
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
            .init("idle_dismissals", .integer(Int64(idleDismissals))),
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
