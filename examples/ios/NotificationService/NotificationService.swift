import CampanileClient
import UserNotifications

/// Sees every alert with `mutable-content` before it is shown, in a process of its own. It lets no older number onto the
/// icon, as pushes overtake each other and iOS sets whatever number comes last, removes what was read elsewhere, and fetches
/// the alert's image.
final class NotificationService: UNNotificationServiceExtension {
    private let alerts = AlertService(badge: BadgeStore(storage: .appGroup(appGroup)))

    override func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) {
        alerts.didReceive(request, withContentHandler: contentHandler)
    }

    /// iOS waits no longer: the alert is shown as it stands.
    override func serviceExtensionTimeWillExpire() { alerts.timeWillExpire() }
}
