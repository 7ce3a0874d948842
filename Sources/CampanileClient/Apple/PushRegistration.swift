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
    /// At every launch: asks for the device's token, which comes to
    /// `didRegisterForRemoteNotificationsWithDeviceToken` and goes to `register(_:)` from there; and for permission, which
    /// shows something the first time only. The token comes whatever the user answers. After a sign-out that the server
    /// couldn't be told of iOS isn't asked for a token until `signedIn`, and is told once more to take no pushes.
    /// - Returns: whether the user allows alerts.
    @MainActor
    @discardableResult
    public func start() async throws -> Bool { try await start(.ios) }

    /// `signOut(_:)`; and what the user was sent leaves the screen. Where the server couldn't be told, iOS is, which needs no
    /// network: it takes no push for this device until somebody signs in.
    @MainActor
    public func signOutOfDevice(_ badge: BadgeStore) async -> SignOut { await signOut(badge, of: .ios) }

    /// `signedIn(_:_:)`; what somebody else was sent leaves the screen, and iOS takes pushes again if a sign-out stopped them.
    @MainActor
    public func signedInOnDevice(_ user: String, _ badge: BadgeStore) async throws {
        try await signedIn(user, badge, on: .ios)
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
