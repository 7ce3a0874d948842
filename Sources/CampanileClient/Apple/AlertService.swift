#if canImport(UserNotifications)
import Foundation
public import UserNotifications

/// The work of an app's notification service extension, which sees every alert with `mutable-content` before it is shown:
/// lets no older number onto the icon, removes what was read or deleted elsewhere, and fetches the alert's image. An alert
/// whose own entry was read before it came is shown passively and without a sound.
///
/// Whatever fails, the alert is shown, without its image. Call it from both methods of the extension:
///
///     private let alerts = AlertService(badge: BadgeStore(storage: .appGroup("group.com.example.shop")))
public final class AlertService: Sendable {
    private let work: AlertWork
    private let waiting = Locked<WaitingAlert?>(nil)

    /// - Parameters:
    ///   - badge: a store with the app group's storage, which the app uses too.
    ///   - shown: the phone's notifications; nil leaves them as they are.
    public init(badge: BadgeStore, images: AlertImageFetch = AlertImageFetch(), shown: ShownNotifications? = .system) {
        work = AlertWork(dismissals: Dismissals(badge, shown), images: images)
    }

    /// For the extension's method of this name. Calls the handler once: without an image when what is dismissed has left,
    /// otherwise when it is there or has failed, after `AlertImageFetch.timeLimit` at most.
    public func didReceive(
        _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
    ) {
        guard let content = request.content.mutableCopy() as? UNMutableNotificationContent else {
            return contentHandler(request.content)
        }
        let badge = work.dismissals.badge
        // Before the wait, for other alerts that come meanwhile.
        content.showNewestBadge(of: badge)
        let payload = PushPayload(userInfo: content.userInfo)
        let alert = PreparedAlert(content: content, handler: contentHandler)
        let waiting = work.begin(payload) { file, isDismissed in alert.show(file, badge, isDismissed: isDismissed) }
        self.waiting.withLock { $0 = waiting }
    }

    /// For the extension's `serviceExtensionTimeWillExpire`: iOS waits no longer, and the alert is shown without its image.
    public func timeWillExpire() { waiting.withLock { $0 }?.endWait() }
}

/// An alert on its way to the thread that shows it.
///
/// Sendable although unchecked: the thread that iOS calls makes it, and from then on only the one call of `show` uses it.
private struct PreparedAlert: @unchecked Sendable {
    let content: UNMutableNotificationContent
    let handler: (UNNotificationContent) -> Void

    /// - Parameter file: the image's. iOS moves it away when it has looked into it.
    func show(_ file: URL?, _ badge: BadgeStore, isDismissed: Bool) {
        if let file {
            do {
                content.attachments = [try UNNotificationAttachment(identifier: "image", url: file)]
            } catch {
                try? FileManager.default.removeItem(at: file)
            }
        }
        // Again: a newer number may have come during the wait.
        content.showNewestBadge(of: badge)
        if isDismissed {
            // Not swallowed: only with Apple's entitlement for filtering may an extension show nothing.
            content.interruptionLevel = .passive
            content.sound = nil
        }
        handler(content)
    }
}
#endif
