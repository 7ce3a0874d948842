import CampanileCore
import Push

/// Decides whether the push of a notification can be sent at all. Its body may be shortened where need be, and nothing else.
enum PushLimit {
    static func fits(_ content: NotificationContent, _ push: PushRequestOptions, _ rules: NotificationRules) -> Bool {
        PayloadLimit.fits(
            PushAlert(
                Notification(
                    id: UUIDv7(high: .max, low: .max), createdAt: Timestamp(milliseconds: 0), readAt: nil, content: content,
                    push: push), rules.category(content.category)),
            isMutable: rules.mutableContent)
    }
}
