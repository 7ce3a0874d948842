#if canImport(UserNotifications)
import UserNotifications

extension ShownNotifications {
    /// This app's, also when its extension asks.
    public static var system: ShownNotifications {
        ShownNotifications {
            await UNUserNotificationCenter.current().deliveredNotifications().map {
                Notification(
                    identifier: $0.request.identifier, payload: PushPayload(userInfo: $0.request.content.userInfo))
            }
        } remove: { identifiers in
            UNUserNotificationCenter.current().removeDeliveredNotifications(withIdentifiers: identifiers)
        }
    }
}
#endif
