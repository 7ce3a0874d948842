import CampanileClient
import HotwireNative
import UIKit

// The versions of Hotwire Native declare these differently: here as 1.2.2 and 1.3.0-beta do. The other files compile with each.

/// Why a page couldn't be loaded.
typealias PageError = any Error

extension ClientFailure {
    /// - Returns: nil for a load that was stopped or replaced.
    init?(page error: PageError) {
        var status: Int?
        var code: Int?
        switch error as? TurboError {
        // Status 0: a visit of Turbo's that got no answer.
        case .http(statusCode: 0)?, .networkFailure?: code = NSURLErrorNetworkConnectionLost
        case .http(let statusCode)?: status = statusCode
        case .timeoutFailure?: code = NSURLErrorTimedOut
        case .contentTypeMismatch?, .pageLoadFailure?: break
        case nil where (error as NSError).domain == NSURLErrorDomain: code = (error as NSError).code
        case nil: break
        }
        self.init(pageStatus: status, code: code)
    }
}

extension Shell {
    /// Writes the number on a tab, and what VoiceOver says of the tab.
    func label(tab index: Int, _ label: String, badge: String?) {
        guard let item = tabBar.viewControllers?[index].tabBarItem else { return }
        item.accessibilityLabel = label
        item.badgeValue = badge
    }
}
