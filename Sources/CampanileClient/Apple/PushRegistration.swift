#if canImport(UIKit) && canImport(UserNotifications)
public import UIKit
import UserNotifications

// An extension of the app links this too, and has no UIApplication.
@available(iOSApplicationExtension, unavailable)
extension PushSystem {
    fileprivate static let ios = PushSystem(
        register: { UIApplication.shared.registerForRemoteNotifications() },
        unregister: { UIApplication.shared.unregisterForRemoteNotifications() },
        removeDelivered: { UNUserNotificationCenter.current().removeAllDeliveredNotifications() })
}

@available(iOSApplicationExtension, unavailable)
extension DeviceRegistration {
    /// Call it at every launch. Asks iOS for the device's token, which comes to
    /// `didRegisterForRemoteNotificationsWithDeviceToken`; pass it to `register(_:)`. The token comes whatever the user
    /// allows, and asking for it shows nothing. After a sign-out that didn't reach the server it asks for no token until
    /// `signedIn`, and unregisters at iOS once more.
    @MainActor
    public func start() async { await start(.ios) }

    /// Asks the user to allow alerts, sounds and the number on the icon. iOS shows its question only the first time, so
    /// call it when the user knows what for, such as after the sign-in.
    /// - Parameter provisional: true shows no question: alerts come silently into the notification centre until the
    ///   user decides there.
    /// - Returns: whether the user allows alerts.
    /// - Throws: iOS's error.
    @MainActor
    @discardableResult
    public func askForAlerts(provisional: Bool = false) async throws -> Bool {
        let options: UNAuthorizationOptions = [.alert, .badge, .sound]
        return try await UNUserNotificationCenter.current()
            .requestAuthorization(options: provisional ? options.union(.provisional) : options)
    }

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
