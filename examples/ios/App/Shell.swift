import CampanileClient
import HotwireNative
import SafariServices
import UIKit

/// The app around the web pages: its tabs, what stands in their bars, and where a link leads. What it decides by is
/// CampanileClient's; what is here is what shows it. A UIResponder, because UIKit's classes may conform to the library's
/// delegate, which names no actor, in the language mode 5.
final class Shell: UIResponder {
    private(set) lazy var tabBar = HotwireTabBarController(navigatorDelegate: self)
    private(set) var tabs: [HotwireTab] = []
    private(set) var configuration = TabConfiguration([])
    /// The screens of deep links: the app's own table, until the server's is there.
    var router = Shell.router(Addresses.deepLinks)
    /// Whose modal stack shows the sign-in.
    weak var signInNavigator: Navigator?
    private var observation: BadgeObservation?

    /// Makes the tabs of the path configuration. New ones of the server are there at the next launch.
    func start() {
        configuration = TabConfiguration(settings: Hotwire.config.pathConfiguration.settings) ?? Shell.withoutConfiguration
        tabs = configuration.tabs.compactMap { tab in
            Addresses.web.page(tab.path).map { url in
                HotwireTab(
                    id: tab.id, title: tab.title ?? "", image: image(tab.icon), selectedImage: image(tab.selectedIcon),
                    url: url)
            }
        }
        tabBar.load(tabs)
        for navigator in navigators {
            navigator.rootViewController.delegate = self
            navigator.modalRootViewController.delegate = self
        }
        observation = Services.shared.badge.observe { [weak self] _ in
            Task { @MainActor in self?.showBadge() }
        }
        Services.shared.push.screens = self
        loadDeepLinks()
    }

    private static let withoutConfiguration = TabConfiguration([
        .init(title: "Home", icon: "house", path: "/"),
        .init(title: "Notifications", icon: "bell", path: Addresses.inbox, isNotifications: true),
    ])

    /// Of the app's own images, else of Apple's. The app's have the inset that an icon without a title needs: the picture
    /// stands low on its canvas, where the tab bar would put a title.
    private func image(_ name: String?) -> UIImage? {
        name.flatMap { UIImage(named: $0) ?? UIImage(systemName: $0) }
    }

    var navigators: [Navigator] { tabs.compactMap { tabBar.navigator(for: $0) } }

    /// The page that the user looks at.
    var currentPage: URL? {
        let top = tabBar.activeNavigator.activeNavigationController.topViewController
        return (top as? any Visitable)?.currentVisitableURL
    }

    var inboxTab: HotwireTab? {
        configuration.notificationsIndex.flatMap { index in tabs.first { $0.id == configuration.tabs[index].id } }
    }

    func select(_ tab: HotwireTab) {
        if #available(iOS 18.0, *), let shown = tabBar.tab(forIdentifier: tab.id) {
            tabBar.selectedTab = shown
        } else if let index = tabs.firstIndex(of: tab) {
            tabBar.selectedIndex = index
        }
    }

    /// Opens what somebody chose: a page in the tab that shows, another site in a Safari view, the rest by the system.
    func visit(_ url: URL) {
        switch Addresses.links.action(for: url) {
        case .navigate: tabBar.activeNavigator.route(url)
        case .safariView: showSafari(url)
        case .system: UIApplication.shared.open(url)
        }
    }

    func showSafari(_ url: URL) {
        let page = SFSafariViewController(url: url)
        page.dismissButtonStyle = .close
        tabBar.activeNavigator.activeNavigationController.present(page, animated: true)
    }

    /// Where the number stands: on the notifications' tab, and on every screen's bell. (The icon's is CampanileClient's.)
    private func showBadge() {
        if let tab = inboxTab {
            let text = BadgeText.tab(Services.shared.badge.count)
            // From iOS 18 on the bar shows the former, before the latter.
            if #available(iOS 18.0, *) { tabBar.tab(forIdentifier: tab.id)?.badgeValue = text }
            tabBar.navigator(for: tab)?.rootViewController.tabBarItem.badgeValue = text
        }
        for navigator in navigators {
            let screens = navigator.rootViewController.viewControllers + navigator.modalRootViewController.viewControllers
            for screen in screens { putBell(on: screen) }
        }
    }

    /// On every screen but the sign-in, where nobody has an inbox yet.
    func putBell(on screen: UIViewController) {
        guard (screen as? any Visitable)?.currentVisitableURL.path != Addresses.signIn else { return }
        let item = Bell.item(count: Services.shared.badge.count) { [weak self] in self?.showInbox() }
        let others = screen.navigationItem.rightBarButtonItems ?? []
        screen.navigationItem.rightBarButtonItems = [item] + others.filter { $0.tag != Bell.tag }
    }
}
