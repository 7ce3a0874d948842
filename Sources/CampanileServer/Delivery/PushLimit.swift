import CampanileCore
import Push

/// Decides whether the push of a notification can be sent at all. Its body may be shortened where need be, and nothing else.
enum PushLimit {
    /// - Parameter isReplacement: true for the alert that takes another one's place after an edit.
    static func fits(
        _ content: NotificationContent, _ push: PushRequestOptions, _ rules: NotificationRules, isReplacement: Bool = false
    ) -> Bool {
        let alert = PushAlert(
            Notification(
                id: UUIDv7(high: .max, low: .max), createdAt: Timestamp(milliseconds: 0), readAt: nil, content: content,
                push: push.begun(at: Timestamp(milliseconds: 0))), rules.category(content.category))
        return PayloadLimit.fits(isReplacement ? alert.replacing() : alert, isMutable: rules.mutableContent)
    }
}
