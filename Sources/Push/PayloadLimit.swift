import CampanileCore

/// Keeps payloads within the 4,096 bytes that both providers take (Apple, "Generating a remote notification"; Firebase,
/// "About FCM messages"). Cuts the end of the body, then of the title; any other cut would change the meaning.
package enum PayloadLimit {
    package static let bytes = 4_096
    private static let ellipsis = "…"

    /// Builds a request, again and again from a shorter alert while it is too large.
    /// - Parameter size: the counted bytes of a request.
    /// - Returns: a request that may still be too large, if it is so without its words.
    static func fit(
        _ alert: PushAlert, _ build: (PushAlert) -> PushRequest, size: (PushRequest) -> Int
    ) -> PushRequest {
        let alert = alert.withFieldsRead()
        var request = build(alert)
        var excess = size(request) - bytes
        guard excess > 0 else { return request }
        let body = shortened(alert.body, by: excess)
        request = build(alert.with(title: alert.title, body: body))
        excess = size(request) - bytes
        guard excess > 0 else { return request }
        return build(alert.with(title: shortened(alert.title, by: excess), body: body))
    }

    /// Returns whether this alert fits for every device with its whole title, even if only an ellipsis is left of its body.
    /// Checked when a notification is created: later is too late to tell the producer.
    /// - Parameter isMutable: whether the app's alerts carry `mutable-content`.
    package static func fits(_ alert: PushAlert, isMutable: Bool = false) -> Bool {
        // Twice the bytes for escapes, and more than the fixed parts ever take: this judges most alerts without
        // building them.
        let words = [
            alert.title, alert.category, alert.deepLink, alert.collapseKey, alert.threadID, alert.sound,
        ]
        .reduce(0) { $0 + ($1.map(escapedBytes) ?? 0) }
        let fields = (alert.payload?.utf8.count ?? 0) + (alert.defaults.text?.utf8.count ?? 0)
        // Six times: an app that draws gets them as JSON in JSON.
        if 2 * words + 6 * fields + 3 * (alert.data?.utf8.count ?? 0) + 1_024 <= bytes {
            return true
        }
        let smallest = alert.with(title: alert.title, body: alert.body.isEmpty ? "" : ellipsis).withFieldsRead()
        let options = PayloadOptions(topics: [:], mutableContent: isMutable ? [worstApp] : [])
        return APNsPayload.alertPayload(worstCase(smallest, .ios), smallest, options).text.count <= bytes
            && [DevicePlatform.android, .ios].allSatisfy { platform in
                FCMPayload.size(worstCase(smallest, platform), smallest, options) <= bytes
            }
    }

    /// Returns whether a message with a dismissal needs no shortening.
    static func fitsWhole(_ message: PushMessage, _ alert: PushAlert) -> Bool {
        // The dismissal brings `mutable-content` along, and nothing else of the options counts.
        let (alert, options) = (alert.withFieldsRead(), PayloadOptions(topics: [:]))
        switch message.device.provider {
        case .apns: return APNsPayload.alertPayload(message, alert, options).text.count <= bytes
        case .fcm: return FCMPayload.size(message, alert, options) <= bytes
        }
    }

    private static let worstApp = ""

    private static func worstCase(_ alert: PushAlert, _ platform: DevicePlatform) -> PushMessage {
        PushMessage(
            id: alert.notificationID, kind: .alert(alert), app: worstApp, userID: "",
            device: PushDevice(token: "", platform: platform, provider: .fcm, environment: .production),
            badge: Badge(count: 999_999_999, unreadCount: 0, version: 9_999_999_999_999_999, updatedAt: nil),
            sentAt: Timestamp(milliseconds: 0))
    }

    /// The text without its end, so that its JSON is shorter by at least `excess` bytes; empty if that is the whole
    /// text.
    static func shortened(_ text: String, by excess: Int) -> String {
        var room = escapedBytes(text) - excess - ellipsis.utf8.count
        guard room >= 0 else { return "" }
        var end = text.startIndex
        for index in text.indices {
            room -= escapedBytes(String(text[index]))
            if room < 0 { break }
            end = text.index(after: index)
        }
        return String(text[..<end]) + ellipsis
    }

    /// The bytes of a string within JSON, as `JSONValue` writes it.
    static func escapedBytes(_ text: String) -> Int {
        text.utf8.reduce(0) { $0 + JSONEscape.width($1) }
    }
}
