#if canImport(UserNotifications)
import Foundation
public import UserNotifications

extension BadgeIcon {
    /// The icon of this app.
    public static func system(_ store: BadgeStore) -> BadgeIcon {
        BadgeIcon(store) { count in
            // Fails while the user allows no badges: then there is no number to show.
            try? await UNUserNotificationCenter.current().setBadgeCount(count)
        } delivered: {
            #if canImport(UIKit)
            await UNUserNotificationCenter.current().deliveredNotifications().map {
                PushPayload(userInfo: $0.request.content.userInfo)
            }
            #else
            // Only after `signedInOnDevice` has removed the former user's notifications.
            []
            #endif
        }
    }
}

extension UNMutableNotificationContent {
    /// For a notification service extension: sets the icon to the newest number that this device knows, never to an
    /// older one that comes late.
    /// - Parameter store: a store with the app group's storage, which the app uses too.
    public func showNewestBadge(of store: BadgeStore) {
        badge = store.number(onIconOf: PushPayload(userInfo: userInfo)).map { NSNumber(value: $0) }
    }
}
#endif
