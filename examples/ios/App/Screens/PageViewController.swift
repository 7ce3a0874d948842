import HotwireNative
import UIKit

/// A page of the web site. Tells when the user sees the inbox, by whatever way: a tab that is selected shows nothing new
/// to its navigation controller.
final class PageViewController: HotwireWebViewController {
    override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        guard currentVisitableURL.path == Addresses.inbox else { return }
        Task { await Services.shared.push.inboxAppeared() }
    }
}
