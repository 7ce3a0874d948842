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
            // Only where `signedInOnDevice` has taken away what somebody else was sent.
            []
            #endif
        }
    }
}

extension UNMutableNotificationContent {
    /// For a notification service extension: the icon gets the newest number that this device has heard of, and not an
    /// older one that comes late.
    /// - Parameter store: with the storage of the app group that the app uses too.
    public func showNewestBadge(of store: BadgeStore) {
        badge = store.number(onIconOf: PushPayload(userInfo: userInfo)).map { NSNumber(value: $0) }
    }
}
#endif
