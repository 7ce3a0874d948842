import Foundation
import Testing

@testable import CampanileClient

@Suite("What every app's shell decides")
struct ShellTests {
    // MARK: Ids of the page

    @Test(
        "ids are taken out of the page's address, numbers only unless told",
        arguments: [
            ("https://x.example/resources/123/detail", "123"), ("https://x.example/resources/123", "123"),
            ("https://x.example/resources/123/?a=/resources/9", "123"), ("https://x.example/resources/new", nil),
            ("https://x.example/resources", nil), ("https://x.example/other/123", nil), ("https://x.example/", nil),
            ("https://x.example/resources/12a", nil),
        ] as [(String, String?)])
    func ids(_ page: String, _ id: String?) {
        #expect(ResourcePath("/resources/:id").id(of: .example(page)) == id)
    }

    @Test("a path may have several ids, and any text for one if told; without a page there are none")
    func severalIDs() {
        let page = URL.example("https://x.example/teams/a%2Fb/members/7")
        #expect(ResourcePath("/teams/:team/members/:id", ids: .any).ids(of: page) == ["team": "a%2Fb", "id": "7"])
        #expect(ResourcePath("/teams/:team/members/:id").ids(of: page) == nil)
        #expect(ResourcePath("/teams/:team", ids: .any).id(of: nil) == nil)
    }

    @Test("a menu's entry is filled from the page, disabled, or leads to its fallback, as declared")
    func menu() {
        let page = URL.example("https://x.example/resources/123/detail")
        let elsewhere = URL.example("https://x.example/resources/new")
        let members = MenuEntry("Members", path: "/resources/:id/members?sort=name")
        #expect(members.target(on: page) == .path("/resources/123/members?sort=name"))
        #expect(members.target(on: elsewhere) == .disabled)
        #expect(members.target(on: nil) == .disabled)
        let list = MenuEntry("Detail", path: "/resources/:id", otherwise: .path("/resources"))
        #expect(list.target(on: page) == .path("/resources/123"))
        #expect(list.target(on: elsewhere) == .path("/resources"))
        #expect(MenuEntry("Help", path: "/help").target(on: nil) == .path("/help"))
        let report = MenuEntry("Report", path: "/reports/:id/print", from: "/resources/:id")
        #expect(report.target(on: page) == .path("/reports/123/print"))
        #expect(MenuEntry("Wrong", path: "/reports/:report", from: "/resources/:id").target(on: page) == .disabled)
        #expect(MenuEntry("Bare", path: "resources/:id").target(on: page) == .path("resources/123"))
    }

    @Test("no entry of a menu has an empty place for an id, whatever the page is")
    func neverDead() {
        var chance = SplitMix(state: 3)
        let words = ["resources", "123", "new", "", ":id", "a%20b", "..", "members"]
        let entries = [
            MenuEntry("A", path: "/resources/:id/members"),
            MenuEntry("B", path: "/resources/:id", ids: .any, otherwise: .path("/all")),
        ]
        for _ in 0..<2_000 {
            let path = (0..<Int.random(in: 0...5, using: &chance)).map { _ in words.randomElement(using: &chance) ?? "" }
            for entry in entries {
                guard case .path(let target) = entry.target(on: URL(string: "https://x.example/" + path.joined(separator: "/")))
                else { continue }
                let segments = target.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
                #expect(!segments.contains(""), "\(target)")
            }
        }
    }

    // MARK: Addresses

    @Test("debug and release builds have their address, and the environment goes before both")
    func baseURL() throws {
        let debug = try BaseURL(debug: "http://localhost:3001", release: "https://x.example", isDebug: true, environment: [:])
        #expect(debug.url.absoluteString == "http://localhost:3001")
        let release = try BaseURL(
            debug: "http://localhost:3001", release: "https://x.example", isDebug: false, environment: ["CAMPANILE_URL": ""])
        #expect(release.url.absoluteString == "https://x.example")
        let other = try BaseURL(
            debug: "http://localhost:3001", release: "https://x.example", isDebug: false, variable: "WEB_URL",
            environment: ["WEB_URL": "http://10.0.0.2:3000"])
        #expect(other.url.absoluteString == "http://10.0.0.2:3000")
    }

    @Test(
        "an address that isn't one is refused by name, also the environment's",
        arguments: [
            "localhost:3001", "ftp://x.example", "https://", "https://x.example/?a=1", "https://x.example/#a", "not a url",
        ])
    func wrongBaseURL(_ text: String) {
        let mistake = #expect(throws: BaseURL.Mistake.self) {
            try BaseURL(
                debug: "http://localhost:3001", release: "https://x.example", isDebug: true, environment: ["CAMPANILE_URL": text])
        }
        #expect(mistake?.description.contains("CAMPANILE_URL") == true && mistake?.description.contains(text) == true)
    }

    @Test(
        "a page stands below the base, and none leads to another host",
        arguments: [
            ("/orders/42?tab=1", "https://x.example/app/orders/42?tab=1"), ("orders", "https://x.example/app/orders"),
            ("//evil.example/a", nil), ("/\\evil.example", nil), ("@evil.example", "https://x.example/app/@evil.example"),
        ] as [(String, String?)])
    func page(_ path: String, _ expected: String?) {
        #expect(BaseURL(.example("https://x.example/app/")).page(path)?.absoluteString == expected)
    }

    @Test(
        "own sites navigate, those at other hosts and ports open in a Safari view, and only http and https do",
        arguments: [
            ("https://x.example/a", .navigate), ("HTTPS://X.EXAMPLE/a", .navigate), ("http://x.example/a", .navigate),
            ("https://x.example:443/a", .navigate), ("http://x.example:80/a", .navigate),
            ("http://x.example:8080/a", .safariView),
            ("http://x.example:443/a", .safariView), ("https://y.example:8443/a", .navigate),
            ("https://y.example/a", .safariView),
            ("https://www.x.example/a", .navigate), ("/a", .navigate), ("https://other.example/a", .safariView),
            ("https://x.example@evil.example/", .safariView), ("https://x.example.evil.example/", .safariView),
            ("mailto:a@x.example", .system), ("tel:112", .system), ("javascript:alert(1)", .system),
            ("file:///etc/hosts", .system),
            ("shop://x.example/a", .system), ("https:", .system),
        ] as [(String, LinkPolicy.Action)])
    func links(_ url: String, _ action: LinkPolicy.Action) {
        let policy = LinkPolicy(BaseURL(.example("https://x.example")), others: ["WWW.x.example", "y.example:8443"])
        #expect(policy.action(for: .example(url)) == action)
    }

    @Test("on one machine the port tells the app's site from Campanile")
    func localLinks() {
        let policy = LinkPolicy(BaseURL(.example("http://localhost:3000")))
        #expect(policy.action(for: .example("http://localhost:3000/a")) == .navigate)
        #expect(policy.action(for: .example("http://localhost:3001/docs")) == .safariView)
        #expect(policy.action(for: .example("http://localhost/a")) == .safariView)
    }

    @Test("a root has no back button, a modal's root closes, others have the arrow alone, and what is done isn't gone back to")
    func backButton() {
        let policy = BackButtonPolicy(final: ["/orders/:id/thanks"])
        let page = URL.example("https://x.example/orders/42")
        let done = URL.example("https://x.example/orders/42/thanks")
        #expect(policy.button(for: page, depth: 0) == .none)
        #expect(policy.button(for: page, depth: 0, isModal: true) == .close)
        #expect(policy.button(for: page, depth: 2) == .minimal)
        #expect(policy.button(for: done, depth: 2) == .none)
        #expect(policy.button(for: nil, depth: 1) == .minimal)
    }

    // MARK: Tabs

    @Test("tabs are read from Hotwire's settings and from the server's answer alike")
    func tabs() throws {
        let text =
            #"{"tabs":[{"title":"Home","icon":"house","selected_icon":"house.fill","path":"/"},"#
            + #"{"title":null,"icon":"bell","selected_icon":null,"path":"/notifications","notifications":true}]}"#
        let expected = TabConfiguration([
            .init(title: "Home", icon: "house", selectedIcon: "house.fill", path: "/"),
            .init(icon: "bell", path: "/notifications", isNotifications: true),
        ])
        #expect(expected.notificationsIndex == 1)
        #expect(TabConfiguration(settings: try JSONValue(parsing: Array(text.utf8))) == expected)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: any Sendable])
        #expect(TabConfiguration(settings: hashable(object)) == expected)
        #expect(TabConfiguration(settings: [:] as [String: AnyHashable]) == nil)
        #expect(TabConfiguration(settings: JSONValue.object([.init("tabs", .array([.object([.init("path", "/")])]))])) == nil)
    }

    /// Foundation's objects as Hotwire has them.
    private func hashable(_ object: [String: Any]) -> [String: AnyHashable] {
        object.compactMapValues { value in
            if let values = value as? [[String: Any]] { return AnyHashable(values.map(hashable)) }
            return value as? AnyHashable
        }
    }

    @Test(
        "VoiceOver hears a tab's title, and of a tab with an icon alone the end of its path",
        arguments: [
            ("Home", "/dashboard", "Home"), (nil, "/notifications?tab=1", "Notifications"),
            ("", "/users/my_account", "My account"),
            (nil, "/", "Home"), (nil, "/service-requests/", "Service requests"),
        ] as [(String?, String, String)])
    func tabLabels(_ title: String?, _ path: String, _ label: String) {
        #expect(TabConfiguration.Tab(title: title, icon: "a", path: path).accessibilityLabel == label)
    }

    // MARK: Pages that fail

    @Test(
        "a page whose loading was called off is no failure; others fail by their status, else by the network's error",
        arguments: [
            (nil, -999, nil), (401, nil, .signedOut), (503, -1, .unavailable), (nil, -1_009, .offline),
            (nil, -1_001, .unreachable),
            (nil, 102, .unknown), (nil, nil, .unknown), (200, nil, .unknown),
        ] as [(Int?, Int?, ClientFailure.Kind?)])
    func page(_ status: Int?, _ code: Int?, _ kind: ClientFailure.Kind?) {
        #expect(ClientFailure(pageStatus: status, code: code)?.kind == kind)
    }

    // MARK: Sign-in

    @Test("the pages of the sign-in are those that the server names, else the usual ones")
    func signInPaths() throws {
        let usual = [
            "https://x.example/sign_in", "https://x.example/sign_in?to=/a", "https://x.example/sign_up",
            "https://x.example/session/new",
            "https://x.example/users/sign_in", "https://x.example/users/sign_up/step/2",
        ]
        for page in usual { #expect(SignInPaths().contains(.example(page)), "\(page)") }
        for page in ["https://x.example/", "https://x.example/help/sign_in", "https://sign_in/a"] {
            #expect(!SignInPaths().contains(.example(page)), "\(page)")
        }
        let text = #"{"settings":{"sign_in":["^/login(\\?|$)","(",7]},"none":{},"empty":{"sign_in":[]}}"#
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: [String: Any]])
        let own = SignInPaths(settings: settings(object["settings"]))
        #expect(own == SignInPaths(["^/login(\\?|$)", "("]))
        #expect(own.contains(.example("https://x.example/login?to=/a")) && own.contains(.example("https://x.example/login")))
        #expect(!own.contains(.example("https://x.example/logins")) && !own.contains(.example("https://x.example/sign_in")))
        #expect(SignInPaths(settings: settings(object["none"])) == SignInPaths())
        #expect(!SignInPaths(settings: settings(object["empty"])).contains(.example("https://x.example/sign_in")))
    }

    /// As the library has them: a dictionary of what JSONSerialization gives.
    private func settings(_ object: [String: Any]?) -> [String: AnyHashable] {
        (object ?? [:]).compactMapValues { value in (value as? [AnyHashable]).map(AnyHashable.init) ?? value as? AnyHashable }
    }

    @Test("of several tabs that are sent to sign-in the first presents it, and all are loaded again after it")
    @MainActor
    func authGate() {
        let gate = AuthGate()
        var reloaded: [Int] = []
        #expect((1...3).map { tab in gate.mayPresent { reloaded.append(tab) } } == [true, false, false])
        gate.finish(signedIn: true)
        #expect(reloaded == [1, 2, 3] && !gate.isPresenting)
        gate.finish(signedIn: true)
        #expect(reloaded == [1, 2, 3])
    }

    @Test("a page that is sent to sign-in again, and one that waits as well, is loaded once, and the gate keeps neither")
    @MainActor
    func authGateRepeats() {
        final class Page {}
        let gate = AuthGate()
        var reloaded: [String] = []
        var pages: [Page] = [Page(), Page()]
        #expect(gate.mayPresent(for: pages[0]) { reloaded.append("first") })
        #expect(!gate.mayPresent(for: pages[1]) { reloaded.append("other") })
        #expect(!gate.mayPresent(for: pages[0]) { reloaded.append("again") })
        weak let page = pages[0]
        pages = []
        #expect(page == nil)
        gate.finish(signedIn: true)
        #expect(reloaded == ["other", "again"])
    }

    @Test(
        "a sign-in that was dismissed loads nothing and forgets nobody, and the next page presents it anew; so does one sent there while reloading"
    )
    @MainActor
    func dismissed() {
        let gate = AuthGate()
        var reloaded = 0
        #expect(gate.mayPresent { reloaded += 1 })
        gate.finish(signedIn: false)
        #expect(reloaded == 0 && !gate.isPresenting)
        #expect(gate.mayPresent())
        gate.finish(signedIn: true)
        #expect(reloaded == 1)
        var again: [Bool] = []
        #expect(gate.mayPresent { again.append(gate.mayPresent()) })
        #expect(!gate.mayPresent { again.append(gate.mayPresent()) })
        gate.finish(signedIn: true)
        #expect(again == [true, false])
    }
}
