// The scenes use the app through this, as its user, its web site and its system do, and what they see of it.
import CampanileClient
import Foundation
import HotwireNative
import UIKit
import UserNotifications

/// For the controls: whether what the app once did stands in the place of what it does.
func old(_ name: String) -> Bool {
    ProcessInfo.processInfo.environment["OLD"]?.split(separator: ",").contains(Substring(name)) ?? false
}

/// One for all windows, as it was.
@MainActor let gateOfAllWindows = AuthGate()

struct Wrong: Error, CustomStringConvertible {
    let description: String
}

@MainActor
final class Phone {
    private let app = AppDelegate()
    private(set) var scene = SceneDelegate()
    private var issued = 0
    /// How long a condition may take to come, in seconds: only what goes wrong takes so long.
    private let patience = Double(CommandLine.arguments[3]) ?? 60
    /// The words that a control has to find. They are waited for less long: only there it is to go wrong.
    private let wrong = ProcessInfo.processInfo.environment["WRONG"]
    /// Holds each time that anything has moved.
    var always: (what: String, holds: () -> Bool)?

    var shell: Shell? { Services.shared.push.screens as? Shell }
    var tabBar: HotwireTabBarController {
        scene.window?.rootViewController as? HotwireTabBarController ?? HotwireTabBarController()
    }

    // MARK: The system

    /// - Parameter tabs: the path configuration's, where it isn't the example's own.
    func launch(_ configure: (inout [String: Any]) -> Void = { _ in }) {
        _ = app.application(UIApplication.shared, didFinishLaunchingWithOptions: nil)
        HotwireWebViewController.rendered = { [weak self] page in self?.runScripts(of: page) }
        let file = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appendingPathComponent(
            "ios_v1.json")
        guard let data = try? Data(contentsOf: file), var json = try? JSONSerialization.jsonObject(with: data) as? [String: Any],
            var settings = json["settings"] as? [String: Any]
        else { return }
        configure(&settings)
        json["settings"] = settings
        if let data = try? JSONSerialization.data(withJSONObject: json) { Hotwire.config.pathConfiguration.load(data) }
        connect()
    }

    func connect() {
        scene = SceneDelegate()
        scene.scene(UIWindowScene(), willConnectTo: UISceneSession(), options: UIScene.ConnectionOptions())
        scene.sceneWillEnterForeground(UIWindowScene())
    }

    func disconnect() { scene.sceneDidDisconnect(UIWindowScene()) }

    func token(_ token: Data = Data([1, 2])) {
        app.application(UIApplication.shared, didRegisterForRemoteNotificationsWithDeviceToken: token)
    }

    /// The user taps a push.
    func tapPush(link: String) {
        let center = UNUserNotificationCenter.current()
        let push: [AnyHashable: Any] = ["aps": ["alert": ["title": "T"]], "deepLink": link]
        center.delegate?.userNotificationCenter(center, didReceive: UNNotificationResponse(push)) {}
    }

    // MARK: The user

    func select(_ index: Int) { tabBar.userSelects(index) }

    /// The screen on top.
    var top: UIViewController? {
        let root = tabBar.presentedViewController ?? tabBar.viewControllers?[tabBar.selectedIndex]
        return (root as? UINavigationController)?.topViewController ?? root
    }
    var topPage: PageViewController? { top as? PageViewController }

    /// The tabs as the bar shows them.
    var tabItems: [(image: UIImage?, label: String?, badge: String?)] {
        guard tabBar.tabs.isEmpty else { return tabBar.tabs.map { ($0.image, $0.accessibilityLabel, $0.badgeValue) } }
        let items = tabBar.viewControllers?.compactMap(\.tabBarItem) ?? []
        return items.map { ($0.image, $0.accessibilityLabel, $0.badgeValue) }
    }

    /// The screen as the user sees it: `alice /dashboard`, `nothing /dashboard`, `"You are offline …" Retry`.
    var seen: String { look(top) }
    /// The page of a tab, below what is presented.
    func behind(_ index: Int) -> String {
        look((tabBar.viewControllers?[index] as? UINavigationController)?.topViewController)
    }

    private func look(_ screen: UIViewController?) -> String {
        guard let page = screen as? PageViewController else { return screen.map { "\(type(of: $0))" } ?? "nothing" }
        if page.children.contains(where: { $0 is ErrorPage }) { return "error page" }
        if let failure = page.view.subviews.last(where: { $0 is FailureView }) {
            let text = failure.all.lazy.compactMap { ($0 as? UILabel)?.text }.first ?? ""
            return "\"\(text)\"" + (failure.all.contains { $0 is UIButton } ? " Retry" : "")
        }
        guard let shown = page.visitableView.shows else { return "nothing \(page.initialVisitableURL.path)" }
        return "\(shown.user ?? "nobody") \(shown.url.path)"
    }

    func tapRetry() throws {
        let button = topPage?.view.all.lazy.compactMap { $0 as? UIButton }.first
        guard let button else { throw Wrong(description: "There is no Retry: \(seen)") }
        button.tap()
    }

    func tapBell() throws {
        guard let bell = top?.navigationItem.rightBarButtonItems?.first(where: { $0.tag == Bell.tag }) else {
            throw Wrong(description: "There is no bell.")
        }
        bell.tap()
    }

    func tapClose() throws {
        guard let close = top?.navigationItem.leftBarButtonItems?.first(where: { $0.systemItem == .close }) else {
            throw Wrong(description: "There is nothing to close it with.")
        }
        close.tap()
    }

    // MARK: The web site

    func url(_ path: String) -> URL { Addresses.web.page(path) ?? Addresses.web.url }
    var navigator: Navigator { tabBar.activeNavigator }

    /// The user taps a link on the page that shows.
    func follow(_ path: String) {
        let isModal = tabBar.presentedViewController != nil
        (isModal ? navigator.modalSession : navigator.session).propose(url(path))
    }

    /// The form of the sign-in, which is answered with a redirect.
    func signIn(_ user: String, to path: String = "/dashboard") {
        Site.user = user
        answerForm(navigator.modalSession, path)
    }

    /// The button of the layout: the page has the app let the device go, and then ends the session with its form.
    /// - Parameters:
    ///   - isFormFirst: true if the app hears of the form's end before it hears of the redirect.
    ///   - meanwhile: done while the page waits for the app's answer.
    func signOut(
        to path: String = "/sign_in", isFormFirst: Bool = true, meanwhile: () async throws -> Void = {}
    ) async throws {
        guard let page = topPage else { throw Wrong(description: "No page shows.") }
        let before = BridgeComponent.replies.filter { $0 == "signOut" }.count
        send("signOut", [:], from: page)
        try await meanwhile()
        try await until("the app answers the page that signs out") {
            BridgeComponent.replies.filter { $0 == "signOut" }.count > before
        }
        Site.user = nil
        answerForm(navigator.session, path, isFormFirst)
    }

    private func answerForm(_ session: Session, _ path: String, _ isFormFirst: Bool = true) {
        let response = VisitResponse(redirected: true, page: Site.page(url(path)))
        if isFormFirst { session.finishFormSubmission() }
        session.propose(url(path), VisitOptions(action: .advance, response: response))
        if !isFormFirst { session.finishFormSubmission() }
    }

    /// As the layout's component does: who is signed in, the session says, and not the page.
    private func runScripts(of page: HotwireWebViewController) {
        guard page.visitableView.webView?.page?.user != nil, let user = Site.user else { return }
        issued += 1
        let parts = ["{}", #"{"sub":"\#(user)","iat":\#(issued)}"#, "none"].map { part in
            Data(part.utf8).base64EncodedString().replacingOccurrences(of: "=", with: "")
        }
        send("connect", ["userToken": parts.joined(separator: "."), "userID": user], from: page)
    }

    private func send(_ event: String, _ data: [String: String], from page: HotwireWebViewController) {
        guard let json = try? JSONSerialization.data(withJSONObject: data) else { return }
        NotificationTokenComponent(destination: page, delegate: page).onReceive(message: Message(event, json))
    }

    // MARK: What comes of it

    /// The calls that Campanile has got.
    func calls() async throws -> [String] { try JSONDecoder().decode([String].self, from: await tell("log")) }

    /// Tells the server of the test.
    @discardableResult
    func tell(_ word: String) async throws -> Data {
        try await URLSessionTransport().send(HTTPCall(url: Addresses.campanile.url.appendingPathComponent("control/" + word)))
            .body
    }

    /// Lets animations and requests go on until it is so.
    func until(_ what: String, _ holds: () async throws -> Bool) async throws {
        let begun = Date()
        while true {
            try move()
            if try await holds() { return }
            let found = "\(what): it is \(seen); asked: \(Site.asked.joined(separator: " "))"
            let isExpected = wrong.map { found.contains($0) } ?? false
            guard Date() < begun + (isExpected ? min(patience, 15) : patience) else { throw Wrong(description: found) }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    /// The page that shows has handed its user token, and the app has done what follows from it: the nth page that did.
    func handsToken(_ times: Int) async throws {
        try await until("page \(times) hands its token") { BridgeComponent.replies.filter { $0 == "connect" }.count >= times }
    }

    func sees(_ expected: String) async throws { try await until("the user sees \(expected)") { seen == expected } }

    /// After all that was begun.
    func check(_ what: String, _ holds: Bool) throws {
        guard holds else { throw Wrong(description: "\(what): it is \(seen); asked: \(Site.asked.joined(separator: " "))") }
    }

    private func move() throws {
        while true {
            let isScreenBusy = Screen.settle()
            try checkAlways()
            let isSiteBusy = Site.deliver(holding: held)
            try checkAlways()
            if !isScreenBusy && !isSiteBusy { return }
        }
    }

    private func checkAlways() throws {
        if let always, !always.holds() { throw Wrong(description: "\(always.what): it is \(seen)") }
    }

    /// The requests that aren't answered yet.
    var held: (URL) -> Bool = { _ in false }

    /// One turn of the screen and the site.
    func step() {
        Screen.settle()
        Site.deliver(holding: held)
    }
}

extension Phone {
    /// The pages that waited for the sign-in are there. The tab that showed it has the page of the redirect on top.
    func seesTabsAgain() async throws {
        for index in [1, 2] {
            select(index)
            try await sees("alice \(tabs[index])")
        }
        select(0)
        while (navigator.rootViewController.viewControllers.count) > 1 {
            navigator.pop()
            try await until("it is popped") { seen.hasPrefix("alice") }
        }
        try await sees("alice /dashboard")
    }
}
