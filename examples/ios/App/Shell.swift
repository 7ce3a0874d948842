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
    /// The navigators of the tabs that have begun to load, by the tab's address.
    private(set) var navigators: [URL: Navigator] = [:]
    /// The screens of deep links: the app's own table, until the server's is there.
    var router = Shell.router(Addresses.deepLinks)
    /// Of this window: when another one takes its place, a sign-in that showed here holds none up there.
    let gate = AuthGate()
    /// The sign-in shows in this one's modal stack.
    weak var signInNavigator: Navigator?
    /// How many pages of that stack the sign-in stands on.
    var pagesBelowSignIn = 0
    /// True from a sign-out's beginning until the tabs are made anew.
    var isLeaving = false
    /// True from a sign-out's answer on: before, the page that is to end the web session must stay, whatever else is opened.
    var mayEndWebSession = false
    private var observations: [BadgeObservation] = []

    /// Makes the tabs of the path configuration. New ones of the server are there at the next launch.
    func start() {
        let given = TabConfiguration(settings: Hotwire.config.pathConfiguration.settings) ?? Shell.withoutConfiguration
        configuration = TabConfiguration(given.tabs.filter { Addresses.web.page($0.path) != nil })
        tabs = configuration.tabs.compactMap { tab in
            Addresses.web.page(tab.path).map { url in
                HotwireTab(
                    title: tab.title ?? "", image: image(tab.icon, of: tab) ?? UIImage(),
                    selectedImage: image(tab.selectedIcon, of: tab), url: url)
            }
        }
        loadTabs()
        observe()
        loadDeepLinks()
    }

    /// Makes the tabs, each with a navigator and web views of its own. The one that shows loads, the others when they are
    /// selected; with Hotwire Native 1.2.2 all of them load at once.
    func loadTabs() {
        navigators = [:]
        tabBar.load(tabs)
        showBadge()
    }

    private func observe() {
        let services = Services.shared
        observations = [
            services.badge.observe { [weak self] _ in Task { @MainActor in self?.showBadge() } },
            services.badge.onUserChange { [weak self] change in Task { @MainActor in self?.userChanged(change) } },
        ]
        services.signedInAgain = { [weak self] in self?.signedIn() }
        services.signOutAnswered = { [weak self] in self?.mayEndWebSession = true }
        services.push.screens = self
    }

    /// The window has gone. The library's tab bar keeps its delegate, which is this, so neither would go.
    func end() {
        observations = []
        forgetMissingPages()
        navigators = [:]
        tabBar = HotwireTabBarController()
    }

    private static let withoutConfiguration = TabConfiguration([
        .init(title: "Home", icon: "house", path: "/"),
        .init(title: "Notifications", icon: "bell", path: Addresses.inbox, isNotifications: true),
    ])

    /// Of the app's own images, else of Apple's. A picture without a title stands low on its canvas, where the tab bar would
    /// put the title: the app's own are drawn so.
    private func image(_ name: String?, of tab: TabConfiguration.Tab) -> UIImage? {
        guard let name else { return nil }
        if let own = UIImage(named: name) { return own }
        guard let symbol = UIImage(systemName: name), tab.title?.isEmpty ?? true else { return UIImage(systemName: name) }
        let canvas = CGSize(width: symbol.size.width, height: symbol.size.height + 12)
        return UIGraphicsImageRenderer(size: canvas).image { _ in symbol.draw(at: CGPoint(x: 0, y: 12)) }
            .withRenderingMode(.alwaysTemplate)
    }

    /// Keeps a tab's navigator, whose first proposal is the tab's own page.
    func meet(_ navigator: Navigator, at url: URL) {
        guard !navigators.values.contains(where: { $0 === navigator }) else { return }
        navigators[url] = navigator
        navigator.rootViewController.delegate = self
        navigator.modalRootViewController.delegate = self
    }

    /// The page that the user looks at.
    var currentPage: PageViewController? {
        tabBar.activeNavigator.activeNavigationController.topViewController as? PageViewController
    }

    /// Selects a tab and shows its own page, at the foot of its stack.
    func showOwnPage(ofTab index: Int) {
        putModalsAway()
        // It is loaded by what follows.
        (navigators[tabs[index].url]?.rootViewController.viewControllers.first as? PageViewController)?.isMissing(nil)
        tabBar.selectedIndex = index
        let owner = tabBar.activeNavigator
        if owner.rootViewController.viewControllers.isEmpty { owner.start() } else { owner.clearAll() }
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
        let text = BadgeText.tab(Services.shared.badge.count)
        for (index, tab) in configuration.tabs.enumerated() {
            label(tab: index, tab.accessibilityLabel, badge: index == configuration.notificationsIndex ? text : nil)
        }
        for screen in screens { putBell(on: screen) }
    }

    /// Of every tab that has begun, with what stands over them.
    var screens: [UIViewController] {
        navigators.values.flatMap { $0.rootViewController.viewControllers + $0.modalRootViewController.viewControllers }
    }

    /// On every screen but the sign-in, where nobody has an inbox yet.
    func putBell(on screen: UIViewController) {
        if let page = screen as? any Visitable, signInPaths.contains(page.currentVisitableURL) { return }
        let item = Bell.item(count: Services.shared.badge.count) { [weak self] in _ = self?.showInbox() }
        let others = screen.navigationItem.rightBarButtonItems ?? []
        screen.navigationItem.rightBarButtonItems = [item] + others.filter { $0.tag != Bell.tag }
    }
}
