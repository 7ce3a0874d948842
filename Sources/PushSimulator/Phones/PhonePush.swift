import CampanileCore

package enum PhonePlatform: String, Sendable, CaseIterable {
    case ios
    case android
}

/// The kind of push, for fault rules and for display.
package enum PushKind: String, Sendable, CaseIterable {
    /// Shows a notification.
    case alert
    /// Sets the icon to 0 and shows nothing.
    case clearing
    /// Sets the icon to another number and shows nothing.
    case sync
    /// Wakes the app, or hands it data, and nothing else.
    case background
}

/// A push as a phone understands it, from either service.
struct PhonePush: Sendable {
    let id: String
    let platform: PhonePlatform
    /// The bundle id or the Firebase project.
    let app: String
    var alert: PhoneAlert?
    /// The icon's new number; nil leaves it unchanged.
    var badge: Int64?
    var badgeVersion: Int64?
    /// True if the app's notification service extension sees it first (`mutable-content`, alerts only).
    var isMutable = false
    /// True if it wakes the app in the background.
    var wakesApp = false
    /// The notifications that it takes away.
    var dismissal: PhoneDismissal?
    /// A message of high priority (Android).
    var isHighPriority = false
    /// The key of the pushes that it replaces: in the notification centre, and (Android) among those that wait for the
    /// phone.
    var collapseID: ExactText?
    var tag: ExactText?
    /// The time at which the service drops it if the phone is off: milliseconds since 1970; nil if it isn't kept at all.
    var keptUntil: Int64?

    var kind: PushKind {
        if alert != nil { return .alert }
        guard let badge else { return .background }
        return badge == 0 ? .clearing : .sync
    }
}

extension PhonePush {
    /// The time for which APNs and FCM keep a push by default and at most: four weeks for Google, 30 days for Apple.
    static let appleDays: Int64 = 30
    static let googleSeconds: Int64 = 2_419_200

    /// From APNs.
    init(_ push: APNsPush, now: Int64) {
        self.init(id: push.id, platform: .ios, app: push.topic)
        read(applePayload: push.payload)
        collapseID = push.collapseID.map { ExactText($0) }
        keptUntil = PhonePush.keptUntil(expiration: push.expiration, now: now)
    }

    init(id: String, platform: PhonePlatform, app: String) {
        self.id = id
        self.platform = platform
        self.app = app
    }

    static func keptUntil(expiration: Int64?, now: Int64) -> Int64? {
        let longest = now + appleDays * 24 * 3_600 * 1_000
        guard let expiration else { return longest }
        guard expiration > 0 else { return nil }
        // More seconds than fit count as the longest time.
        let (milliseconds, isTooMuch) = expiration.multipliedReportingOverflow(by: 1_000)
        return isTooMuch ? longest : min(milliseconds, longest)
    }

    /// The values that iOS takes from a payload. Ignores a value of the wrong type, as iOS does.
    mutating func read(applePayload payload: JSONValue) {
        let aps = payload["aps"]
        alert = PhoneAlert(applePayload: payload)
        if case .integer(let number)? = aps?["badge"], number >= 0 { badge = number }
        // A push without an alert runs no extension.
        isMutable = alert != nil && aps?["mutable-content"] == .integer(1)
        wakesApp = aps?["content-available"] == .integer(1)
        badgeVersion = PhonePush.integer(payload["badgeVersion"])
        dismissal = PhoneDismissal(payload)
    }

    /// Returns whether Android delivers it to a phone in Doze: a message of high priority, unless FCM demoted the app's.
    func wakesFromSleep(isDemoted: Bool) -> Bool { isHighPriority && !isDemoted }

    static func text(_ value: JSONValue?) -> String? {
        guard case .string(let text)? = value else { return nil }
        return text
    }

    /// A number, or the text of one: FCM's data holds only texts.
    static func integer(_ value: JSONValue?) -> Int64? {
        switch value {
        case .integer(let integer)?: integer
        case .string(let text)?: Int64(text)
        default: nil
        }
    }
}
