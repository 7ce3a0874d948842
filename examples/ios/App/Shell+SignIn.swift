import CampanileClient
import HotwireNative
import UIKit

extension Shell {
    /// The server's, from the path configuration.
    var signInPaths: SignInPaths { SignInPaths(settings: Hotwire.config.pathConfiguration.settings) }

    /// However many pages are sent to sign-in at once, one presents it, in the tab that shows, since one that doesn't can't.
    /// - Parameter navigator: the one that is about to visit the sign-in itself; nil for a page that was refused.
    func signIn(
        from navigator: Navigator?, for page: PageViewController?, reload: @escaping @MainActor @Sendable () -> Void
    ) -> ProposalResult {
        if gate.isPresenting {
            if let navigator, navigator === signInNavigator { return .accept }
            // It has gone without a sign-in, so it may come again.
            if !isSignInShowing { gate.finish(signedIn: false) }
        }
        guard gate.mayPresent(for: page, reload: reload) else { return .reject }
        // Pages of before the sign-in come back out of no cache.
        for navigator in navigators.values { dropSnapshots(of: navigator) }
        let presenter = tabBar.activeNavigator
        signInNavigator = presenter
        if presenter === navigator { return .accept }
        if let url = Addresses.web.page(Addresses.signIn) { presenter.route(url) }
        return .reject
    }

    /// False also where the library took the sign-in away by itself, for a link in it.
    var isSignInShowing: Bool {
        gate.isPresenting && signInNavigator?.modalRootViewController.presentingViewController != nil
    }

    /// The user has closed what stood over the tabs. Where that was the sign-in, pages say why they are blank.
    func wasPutAway(_ modal: UINavigationController) {
        guard gate.isPresenting, modal === signInNavigator?.modalRootViewController else { return }
        gate.finish(signedIn: false)
        for case let page as PageViewController in screens { page.signInWasPutAway() }
    }

    /// Something else is to be shown. What waits for the sign-in waits on. At once: UIKit presents nothing while something
    /// is on its way out, and the next page may need the sign-in.
    func putModalsAway() {
        tabBar.dismiss(animated: false)
        gate.finish(signedIn: false)
    }

    /// A page of the user who is signed in was shown.
    func signedIn() {
        (isLeaving, mayEndWebSession) = (false, false)
        gate.finish(signedIn: true)
    }

    // MARK: Another user

    func userChanged(_ change: UserChange) {
        guard change.user != nil else {
            // The page that signs out has yet to be answered, and to end the web session.
            (isLeaving, mayEndWebSession) = (true, false)
            return
        }
        if change.former != nil || isLeaving { beginAnew() } else { loadPagesOfNobody() }
        signedIn()
    }

    /// The page that signed its user out has ended the web session, and goes on to another one.
    /// - Returns: whether the tabs were made anew.
    @discardableResult
    func webSessionEnded() -> Bool {
        guard isLeaving, mayEndWebSession else { return false }
        beginAnew()
        return true
    }

    /// Nothing of the former user's is left: the tabs have new web views, and with them no page and no cache of Turbo's.
    private func beginAnew() {
        (isLeaving, mayEndWebSession) = (false, false)
        putModalsAway()
        loadTabs()
    }

    func dropSnapshots(of navigator: Navigator) {
        navigator.session.clearSnapshotCache()
        navigator.modalSession.clearSnapshotCache()
    }

    /// What the other tabs show was made for nobody.
    private func loadPagesOfNobody() {
        for navigator in navigators.values where navigator !== tabBar.activeNavigator {
            let page = navigator.rootViewController.topViewController as? PageViewController
            page?.isMissing(.init { [weak navigator] in navigator?.session.reload() })
        }
    }
}
