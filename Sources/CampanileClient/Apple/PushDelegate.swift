#if canImport(UserNotifications)
public import Foundation
public import UserNotifications

/// Passes iOS's calls about pushes to a `PushHandler`. The notification center doesn't keep its delegate, so the app
/// must. Set it before `didFinishLaunching` returns, or a tap at a cold start is lost:
///
///     UNUserNotificationCenter.current().delegate = pushDelegate
public final class PushDelegate: NSObject, UNUserNotificationCenterDelegate, Sendable {
    private let handler: PushHandler

    public init(_ handler: PushHandler) { self.handler = handler }

    public func userNotificationCenter(
        _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
        withCompletionHandler completionHandler: @escaping (UNNotificationPresentationOptions) -> Void
    ) {
        let payload = PushPayload(userInfo: notification.request.content.userInfo)
        let answer = SystemAnswer(completionHandler)
        Task { @MainActor [handler] in
            switch handler.willPresent(payload) {
            // Not .badge: it would set the icon regardless of the version.
            case .banner: answer.give([.banner, .list, .sound])
            case .nothing: answer.give([])
            }
        }
    }

    public func userNotificationCenter(
        _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
        withCompletionHandler completionHandler: @escaping () -> Void
    ) {
        let payload = PushPayload(userInfo: response.notification.request.content.userInfo)
        let isDismissed = response.actionIdentifier == UNNotificationDismissActionIdentifier
        let answer = SystemAnswer<Void>(completionHandler)
        Task { @MainActor [handler] in
            await handler.responded(to: payload, isDismissed: isDismissed) { answer.give(()) }
        }
    }
}

/// A completion handler of the system on its way to the main thread, where UIKit requires one call.
///
/// Sendable although unchecked: the thread that the system calls makes it, and from then on only the main thread uses
/// it.
struct SystemAnswer<Answer>: @unchecked Sendable {
    private let handler: (Answer) -> Void

    init(_ handler: @escaping (Answer) -> Void) { self.handler = handler }

    @MainActor
    func give(_ answer: Answer) { handler(answer) }
}
#endif
