import CampanileClient
import UserNotifications

/// Sees every alert before it is shown, in a process of its own, and lets no older number onto the icon: pushes overtake
/// each other, and iOS sets whatever number comes last. Runs for payloads with `mutable-content`.
final class NotificationService: UNNotificationServiceExtension {
    override func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) {
        guard let content = request.content.mutableCopy() as? UNMutableNotificationContent else {
            return contentHandler(request.content)
        }
        content.showNewestBadge(of: BadgeStore(storage: .appGroup(appGroup)))
        contentHandler(content)
    }
}
