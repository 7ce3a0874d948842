import CampanileClient
import HotwireNative
import UIKit

extension Shell: DeepLinkCoordinator {
    /// The screens of the app that aren't web pages. A link more is a type more in this list.
    static func router(_ tree: DeepLinkTree) -> DeepLinkRouter<Shell> {
        DeepLinkRouter(tree, [GenerationRanking.self])
    }

    func loadDeepLinks() {
        Services.shared.attempt { [weak self] in
            let tree = try await $0.api.deepLinks()
            self?.router = Shell.router(tree)
        }
    }

    /// A universal link, or one with the app's own scheme. An address of the site that leads to no screen of the tree is a page.
    func open(_ url: URL) {
        let isOwn = Addresses.links.action(for: url) == .navigate
        let hosts = Set(isOwn ? [Addresses.web.url.host].compactMap(\.self) : [])
        let chain = Result { try router.chain(url, hosts: hosts, schemes: [Addresses.scheme]) }
        if isOwn, !leadsThere(chain) { return visit(url) }
        open { try chain.get() }
    }

    /// True if a screen stands at the link's end, whatever of its query was passed over.
    private func leadsThere(_ chain: Result<DeepLinkChain<Shell>, any Error>) -> Bool {
        guard let chain = try? chain.get() else { return false }
        switch chain.problem?.reason {
        case nil, .query: return true
        default: return false
        }
    }

    private func open(_ chain: () throws -> DeepLinkChain<Shell>?) {
        do {
            guard let chain = try chain() else { return }
            if let problem = chain.problem { Services.shared.log(problem) }
            chain.open(in: self)
        } catch {
            // A link that isn't known opens the app where it was.
            Services.shared.log(error)
        }
    }

    /// Where a chain begins, its first page decides: a tab's own selects the tab (`handle(proposal:from:)`), another
    /// stands above what is there.
    func prepareForDeepLink() { putModalsAway() }

    func show(_ page: DeepLinkPage, animated: Bool) {
        guard let url = Addresses.web.page(page.address) else { return }
        var properties = Hotwire.config.pathConfiguration.properties(for: url)
        properties["animated"] = animated
        tabBar.activeNavigator.route(VisitProposal(url: url, options: VisitOptions(), properties: properties))
    }

    func push(_ screen: UIViewController, animated: Bool) {
        tabBar.activeNavigator.rootViewController.pushViewController(screen, animated: animated)
    }
}

extension Shell: PushScreens {
    var isShowingInbox: Bool {
        guard let page = currentPage, page.isSeen else { return false }
        return page.currentVisitableURL.path == Addresses.inbox
    }

    /// In its tab, or, where no tab is the notifications', as a page of the tab that shows.
    func showInbox() -> Bool {
        guard let url = Addresses.web.page(Addresses.inbox) else { return false }
        if let index = configuration.notificationsIndex {
            // The list that stands there may be older than the push, and one out of the cache is.
            navigators[url].map(dropSnapshots)
            showOwnPage(ofTab: index)
        } else {
            putModalsAway()
            tabBar.activeNavigator.route(url)
        }
        return true
    }

    func open(_ payload: PushPayload) {
        open { try router.chain(payload) }
    }
}
