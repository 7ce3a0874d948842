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
        if signInPaths.contains(proposal.url) {
            let page = navigator.rootViewController.topViewController as? PageViewController
            return signIn(from: navigator, for: page) { [weak navigator] in navigator?.session.reload() }
        }
        return tabsOwnPage(proposal.url, from: navigator)
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
        guard failure.kind == .signedOut else {
            return page.show(failure, retry: failure.offersRetry ? retryHandler : nil)
        }
        // Nothing is shown in its place: whatever stood there would stay over the page when it is loaded again.
        page.isMissing(.init(because: failure, until: { [weak self] in self?.isSignInShowing != true }, load: retryHandler))
        _ = signIn(from: nil, for: page) { [weak page] in page?.loadIfMissing() }
    }

    func formSubmissionDidFinish(at url: URL) { webSessionEnded() }
}
