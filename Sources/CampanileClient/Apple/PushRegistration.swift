#if canImport(UIKit) && canImport(UserNotifications)
public import UIKit
import UserNotifications

extension DeviceRegistration {
    /// At every launch, and after a sign-in: asks for permission, which shows something the first time only, and for the
    /// device's token, which comes to `didRegisterForRemoteNotificationsWithDeviceToken` and goes to `register(_:)` from there.
    /// - Returns: whether the user allows alerts. The token comes either way.
    @MainActor
    @discardableResult
    public func start() async throws -> Bool {
        let isAllowed = try await UNUserNotificationCenter.current().requestAuthorization(options: [.alert, .badge, .sound])
        UIApplication.shared.registerForRemoteNotifications()
        return isAllowed
    }

    /// `signOut(_:)`, and where the server couldn't be told, iOS is: it takes no push for this device until `start()`. What
    /// the user was sent leaves the screen.
    @MainActor
    public func signOutOfDevice(_ badge: BadgeStore) async -> SignOut {
        let outcome = await signOut(badge)
        if case .stillRegistered = outcome { UIApplication.shared.unregisterForRemoteNotifications() }
        UNUserNotificationCenter.current().removeAllDeliveredNotifications()
        return outcome
    }
}

extension PushHandler {
    /// The app delegate's `didReceiveRemoteNotification`: also when the push has started the app.
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
