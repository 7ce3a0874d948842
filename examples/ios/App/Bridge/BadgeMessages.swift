import Foundation
import WebKit

/// The page's number from pages without the bridge: `webkit.messageHandlers.badge.postMessage({ count })`.
final class BadgeMessages: NSObject, WKScriptMessageHandler {
    static let name = "badge"

    func userContentController(_ userContentController: WKUserContentController, didReceive message: WKScriptMessage) {
        guard message.name == BadgeMessages.name else { return }
        let count = (message.body as? [String: Any])?["count"] ?? message.body
        if let count = count as? NSNumber { Services.shared.pageSays(count.intValue) }
    }
}
