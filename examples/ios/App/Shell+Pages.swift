import CampanileClient
import HotwireNative
import UIKit

extension Shell: NavigatorDelegate {
    /// A page is about to be visited.
    func handle(proposal: VisitProposal, from navigator: Navigator) -> ProposalResult {
        meet(navigator, at: proposal.url)
        switch Addresses.links.action(for: proposal.url) {
        case .navigate: break
        case .safariView, .system:
            visit(proposal.url)
            return .reject
        }
        if navigator === tabBar.activeNavigator, webSessionEnded() { return .reject }
        if signInPaths.contains(proposal.url) { return signIn(from: navigator) }
        return tabsOwnPage(proposal.url, from: navigator)
    }

    /// A page with a link to the sign-in shows what is for nobody. It loads afterwards, unless it was rendered since.
    private func signIn(from navigator: Navigator) -> ProposalResult {
        let stack = navigator.activeNavigationController
        let session = stack === navigator.modalRootViewController ? navigator.modalSession : navigator.session
        let page = stack.topViewController as? PageViewController
        let renders = page?.renders
        return signIn(from: navigator, for: page) { [weak session, weak page, weak stack] in
            guard let page, page.renders == renders else { return }
            // Under another page it is loaded when the user goes back to it, but not out of Turbo's cache.
            if stack?.topViewController === page { session?.reload() } else { session?.clearSnapshotCache() }
        }
    }

    /// A tab's own page is shown by its tab, at the foot of its stack.
    private func tabsOwnPage(_ url: URL, from navigator: Navigator) -> ProposalResult {
        guard let index = tabs.firstIndex(where: { $0.url == url }) else { return .accept }
        if navigators[url] === navigator, navigator.rootViewController.viewControllers.count <= 1 { return .accept }
        showOwnPage(ofTab: index)
        return .reject
    }

    /// A page couldn't be loaded.
    func visitableDidFailRequest(_ visitable: any Visitable, error: PageError, retryHandler: RetryBlock?) {
        guard let page = visitable as? PageViewController else { return }
        guard let failure = ClientFailure(page: error) else { return page.wasCalledOff(retryHandler) }
        Services.shared.log(failure)
        cameBack(to: page)
        guard failure.kind == .signedOut, !page.wasAtSignIn else {
            return page.show(failure, retry: failure.offersRetry || failure.kind == .signedOut ? retryHandler : nil)
        }
        // Nothing is shown in its place: whatever stood there would stay over the page when it is loaded again.
        page.isMissing(.init(because: failure, until: { [weak self] in self?.isSignInShowing != true }, load: retryHandler))
        _ = signIn(from: nil, for: page) { [weak page] in page?.signInIsDone() }
    }

    func formSubmissionDidFinish(at url: URL) { webSessionEnded() }
}
