import CampanileClient
import Foundation
import UserNotifications

/// Sees every alert before it is shown, in a process of its own, and lets no older number onto the icon: pushes overtake
/// each other, and iOS sets whatever number comes last. Runs for payloads with `mutable-content`.
final class NotificationService: UNNotificationServiceExtension {
    private let lock = NSLock()
    /// Shows the alert, once; nil when it has been shown.
    private var finish: (() -> Void)?

    override func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) {
        guard let content = request.content.mutableCopy() as? UNMutableNotificationContent else {
            return contentHandler(request.content)
        }
        lock.withLock { finish = { contentHandler(content) } }
        content.showNewestBadge(of: BadgeStore(storage: .appGroup(appGroup)))
        show()
    }

    /// iOS waits no longer: the alert is shown as it stands.
    override func serviceExtensionTimeWillExpire() { show() }

    private func show() {
        let finish = lock.withLock {
            defer { self.finish = nil }
            return self.finish
        }
        finish?()
    }
}
