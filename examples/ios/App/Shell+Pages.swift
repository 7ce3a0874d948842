import CampanileClient
import HotwireNative
import UIKit

extension Shell: NavigatorDelegate {
    /// A page is about to be visited.
    func handle(proposal: VisitProposal, from navigator: Navigator) -> ProposalResult {
        switch Addresses.links.action(for: proposal.url) {
        case .navigate: break
        case .safariView, .system:
            visit(proposal.url)
            return .reject
        }
        if proposal.url.path == Addresses.signIn {
            return signIn(from: navigator) { [weak navigator] in navigator?.reload() }
        }
        return tabsOwnPage(proposal.url, from: navigator)
    }

    /// A tab's own page is shown by its tab, at the foot of its stack.
    private func tabsOwnPage(_ url: URL, from navigator: Navigator) -> ProposalResult {
        // While the tabs are being made, the tab asks itself.
        guard let tab = tabs.first(where: { $0.url == url }), let owner = tabBar.navigator(for: tab) else { return .accept }
        if owner === navigator {
            if owner.rootViewController.viewControllers.count <= 1 { return .accept }
        } else {
            tabBar.dismiss(animated: true)
            select(tab)
        }
        owner.clearAll()
        return .reject
    }

    /// A page couldn't be loaded. One whose loading was only called off isn't spoken of: iOS suspends the web views of tabs
    /// that don't show, and their requests end with -999.
    func visitableDidFailRequest(_ visitable: any Visitable, error: HotwireNativeError, retryHandler: RetryBlock?) {
        guard let failure = ClientFailure(page: error) else { return }
        Services.shared.log(failure)
        let retry = retryHandler ?? {}
        // With Retry for the user who puts the sign-in away.
        visitable.visitableViewController.presentError(
            error, retryHandler: failure.offersRetry || failure.kind == .signedOut ? retry : nil)
        if failure.kind == .signedOut { _ = signIn(from: nil) { retry() } }
    }

    /// However many tabs are sent to sign-in at once, one presents it: the tab that shows, since one that doesn't can't.
    private func signIn(from navigator: Navigator?, reload: @escaping @MainActor @Sendable () -> Void) -> ProposalResult {
        let gate = Services.shared.gate
        if gate.isPresenting, let presenter = signInNavigator {
            if presenter === navigator { return .accept }
            // Put away by the user, so it may come again.
            if presenter.rootViewController.presentedViewController == nil { gate.finish(signedIn: false) }
        }
        guard gate.mayPresent(reload: reload) else { return .reject }
        let presenter = tabBar.activeNavigator
        signInNavigator = presenter
        if presenter === navigator { return .accept }
        if let url = Addresses.web.page(Addresses.signIn) { presenter.route(url) }
        return .reject
    }
}

extension ClientFailure {
    /// - Returns: nil for what was only called off.
    fileprivate init?(page error: HotwireNativeError) {
        var code: Int?
        if case .web(let error) = error { code = error.errorCode }
        self.init(pageStatus: error.statusCode, code: code)
    }
}
