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
        let modal = presenter.modalRootViewController
        pagesBelowSignIn = modal.isPresented ? modal.viewControllers.count : 0
        if presenter === navigator { return .accept }
        if let url = Addresses.web.page(Addresses.signIn) { presenter.route(url) }
        return .reject
    }

    /// False also where the library took the sign-in away by itself, for a link in it, and where the user went back from it.
    var isSignInShowing: Bool {
        guard gate.isPresenting, let modal = signInNavigator?.modalRootViewController, modal.isPresented else { return false }
        return modal.viewControllers.count > pagesBelowSignIn
    }

    /// The user has closed what stood over the tabs. Where that was the sign-in, pages say why they are blank.
    func wasPutAway(_ modal: UINavigationController) {
        guard gate.isPresenting, modal === signInNavigator?.modalRootViewController else { return }
        gate.finish(signedIn: false)
        for case let page as PageViewController in screens { page.signInWasPutAway() }
    }

    /// A page was loaded in vain. Where the sign-in stood on it, the user went back from that.
    func cameBack(to screen: UIViewController) {
        guard gate.isPresenting, let modal = signInNavigator?.modalRootViewController, modal.isPresented else { return }
        guard modal.topViewController === screen, !isSignInShowing else { return }
        (screen as? PageViewController)?.signInWasLeft()
        wasPutAway(modal)
    }

    /// Something else is to be shown. What waits for the sign-in waits on. At once: UIKit presents nothing while something
    /// is on its way out, and the next page may need the sign-in.
    func putModalsAway() {
        tabBar.dismiss(animated: false)
        gate.finish(signedIn: false)
    }

    /// A page of the user who is signed in was shown. The sign-in's own says nothing of the pages that it is shown for.
    func signedIn() {
        (isLeaving, mayEndWebSession) = (false, false)
        let top = isSignInShowing ? signInNavigator?.modalRootViewController.topViewController : nil
        if let page = top as? any Visitable, signInPaths.contains(page.currentVisitableURL) { return }
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
        forgetMissingPages()
        loadTabs()
    }

    /// How the library loads a failed page keeps the page and its web view, and the page keeps that.
    func forgetMissingPages() {
        for case let page as PageViewController in screens { page.isMissing(nil) }
    }

    func dropSnapshots(of navigator: Navigator) {
        navigator.session.clearSnapshotCache()
        navigator.modalSession.clearSnapshotCache()
    }

    /// Loads the other tabs' pages again: they were made for nobody.
    private func loadPagesOfNobody() {
        for navigator in navigators.values where navigator !== tabBar.activeNavigator {
            let page = navigator.rootViewController.topViewController as? PageViewController
            page?.isMissing(.init { [weak navigator] in navigator?.session.reload() })
        }
    }
}

extension UIViewController {
    fileprivate var isPresented: Bool { presentingViewController != nil && !isBeingDismissed }
}
