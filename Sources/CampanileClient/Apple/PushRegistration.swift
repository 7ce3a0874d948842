#if canImport(UIKit) && canImport(UserNotifications)
public import UIKit
import UserNotifications

// An extension of the app links this too, and has no UIApplication.
@available(iOSApplicationExtension, unavailable)
extension PushSystem {
    fileprivate static let ios = PushSystem(
        requestAuthorization: {
            try await UNUserNotificationCenter.current().requestAuthorization(options: [.alert, .badge, .sound])
        },
        register: { UIApplication.shared.registerForRemoteNotifications() },
        unregister: { UIApplication.shared.unregisterForRemoteNotifications() },
        removeDelivered: { UNUserNotificationCenter.current().removeAllDeliveredNotifications() })
}

@available(iOSApplicationExtension, unavailable)
extension DeviceRegistration {
    /// Call it at every launch. Asks iOS for the device's token, which comes to
    /// `didRegisterForRemoteNotificationsWithDeviceToken`; pass it to `register(_:)`. Also asks for permission, which
    /// shows an alert only the first time. The token comes whatever the user answers. After a sign-out that didn't
    /// reach the server it asks for no token until `signedIn`, and unregisters at iOS once more.
    /// - Returns: whether the user allows alerts.
    @MainActor
    @discardableResult
    public func start() async throws -> Bool { try await start(.ios) }

    /// `signOut(_:)`, and removes the user's notifications from the screen. If the server can't be reached, also
    /// unregisters at iOS, which needs no network: iOS takes no push for this device until somebody signs in.
    @MainActor
    public func signOutOfDevice(_ badge: BadgeStore) async -> SignOut { await signOut(badge, of: .ios) }

    /// `signedIn(_:_:)`; also removes another user's notifications from the screen, and registers at iOS again if a
    /// sign-out ended that.
    @MainActor
    public func signedInOnDevice(_ user: String, _ badge: BadgeStore) async throws {
        try await signedIn(user, badge, on: .ios)
    }
}

extension PushHandler {
    /// For the app delegate's `didReceiveRemoteNotification`, even when the push has started the app.
    public nonisolated func received(
        _ userInfo: [AnyHashable: Any], completion: @escaping (UIBackgroundFetchResult) -> Void
    ) {
        let payload = PushPayload(userInfo: userInfo)
        let answer = SystemAnswer(completion)
        Task { @MainActor in
            answer.give(await received(payload) ? .newData : .noData)
        }
    }
}
#endif
