import Foundation
import TestSupport

@testable import CampanileClient

/// A notification's id: the greater the number, the newer.
func entryID(_ number: Int) -> String {
    let digits = String(number)
    return "0198f0c2-\(String(repeating: "0", count: 4 - digits.count) + digits)-7abc-8def-0123456789ab"
}

extension HTTPAnswer {
    static func reconciled(_ handled: [String], count: Int = 3, version: Int = 40) -> HTTPAnswer {
        let ids = handled.map { #""\#($0)""# }.joined(separator: ",")
        return .json(
            #"{"handled":[\#(ids)],"badge":{"count":\#(count),"unread_count":5,"version":\#(version),"updated_at":null}}"#)
    }
}

/// A phone with its notification center and its app, or the app's extension.
@MainActor
final class Phone: PushScreens {
    let transport: ScriptedTransport
    let storage: ClientStorage
    let badge: BadgeStore
    let api: CampanileAPI
    /// The notification center.
    let center = Locked<[ShownNotifications.Notification]>([])
    let icon = Locked<[Int]>([])
    let failures = Locked<[ClientFailure]>([])
    let handler: PushHandler
    let dismissals: Dismissals
    var isShowingInbox = false

    /// - Parameters:
    ///   - shown: the ids of what the notification center has.
    ///   - isPatient: whether the system waits for a swipe without end, or not at all.
    ///   - isSignedIn: whether there is a user token.
    init(
        _ shown: [Int] = [], storage: ClientStorage = .memory(), isPatient: Bool = true, isSignedIn: Bool = true,
        _ script: @escaping ScriptedTransport.Script = { _, _ in throw URLError(.notConnectedToInternet) }
    ) {
        self.storage = storage
        transport = ScriptedTransport(script)
        api = .scripted(transport) { _ in isSignedIn ? "jwt" : nil }
        badge = BadgeStore(storage: storage)
        let (center, icon, failures) = (center, icon, failures)
        center.withLock { $0 = shown.map { Phone.alert(entryID($0)) } }
        let notifications = ShownNotifications {
            center.withLock { $0 }
        } remove: { identifiers in
            center.withLock { $0.removeAll { identifiers.contains($0.identifier) } }
        }
        dismissals = Dismissals(badge, notifications)
        handler = PushHandler(
            api: api, badge: badge, icon: BadgeIcon(badge) { count in icon.withLock { $0.append(count) } }, shown: notifications,
            sleep: { _ in if isPatient { try await Task.sleep(for: .seconds(3_600)) } },
            report: { failure in failures.withLock { $0.append(failure) } })
        handler.screens = self
    }

    nonisolated static func alert(_ id: String?, under identifier: String? = nil) -> ShownNotifications.Notification {
        .init(identifier: identifier ?? id ?? UUID().uuidString, payload: PushPayload(id: id))
    }

    func show(_ notification: ShownNotifications.Notification) { center.withLock { $0.append(notification) } }

    /// The names in the notification center.
    var shown: [String] { center.withLock { $0.map(\.identifier) } }

    func signIn(_ user: String) {
        badge.signedIn(user)
        _ = badge.registered(in: badge.session)
        badge.apply(Badge(count: 0, unreadCount: 0, version: 1, updatedAt: nil))
    }

    func showInbox() -> Bool { true }
    func open(_ payload: PushPayload) {}
}

/// A push that says what is to leave, and nothing of the number.
func dismissing(_ ids: Int..., through newest: Int? = nil) -> PushPayload {
    PushPayload(isAlert: false, dismissed: ids.map(entryID), dismissedThrough: newest.map(entryID))
}
