import CampanileClient
import Foundation
import HotwireNative
import UIKit
import UserNotifications

/// Answers 401 to whoever isn't signed in, as the documents say, and shows the sign-in to everybody.
@MainActor
func refuseNobody() {
    Site.outcome = { url in Site.user == nil && !url.path.hasPrefix("/sign_") ? .status(401) : nil }
}

@MainActor
func asked(_ path: String) -> Int { Site.asked.filter { $0 == path }.count }

let tabs = ["/dashboard", "/notifications", "/account"]

extension Phone {
    /// Alice is signed in, and has looked at each tab.
    func useAllTabs(_ user: String = "alice") async throws {
        Site.user = user
        refuseNobody()
        launch()
        token()
        for (index, path) in tabs.enumerated().reversed() {
            select(index)
            try await sees("\(user) \(path)")
        }
        try await until("the device is registered") { try await calls().contains("POST /device_tokens \(user)") }
    }

    func seesInEachTab(_ user: String) async throws {
        for (index, path) in tabs.enumerated() {
            select(index)
            try await sees("\(user) \(path)")
        }
    }

    var signInShows: Bool { seen == "nobody /sign_in" && tabBar.presentedViewController != nil }
}

/// The scenes by their names. Each is played on a phone that nobody has used.
let scenes: [String: @MainActor (Phone) async throws -> Void] = [
    "three tabs are refused, and somebody signs in": { phone in
        refuseNobody()
        Library.mainLoadsAllTabs = true
        phone.launch()
        phone.token()
        try await phone.sees("nobody /sign_in")
        try phone.check("one sign-in is presented", Screen.refused.isEmpty && asked("/sign_in") == 1)
        phone.signIn("alice")
        try await phone.sees("alice /dashboard")
        try await phone.until("the device is registered") { try await phone.calls().contains("POST /device_tokens alice") }
        try await phone.seesInEachTab("alice")
        try phone.check("a page is loaded once after the sign-in", tabs.map(asked) == [1, 2, 2])
    },
    "tabs are refused one after the other, and the page that was refused is loaded once": { phone in
        try await phone.useAllTabs()
        Site.user = nil
        phone.select(2)
        phone.follow("/account/orders")
        try await phone.sees("nobody /sign_in")
        phone.signIn("alice", to: "/refresh_me")
        try await phone.sees("alice /refresh_me")
        phone.navigator.pop(animated: true)
        try await phone.sees("alice /account/orders")
        try phone.check("it is loaded once after the sign-in", asked("/account/orders") == 2)
    },
    "alice signs out, and bob signs in": { phone in
        try await signOutAndIn(phone, isFormFirst: true)
    },
    "alice signs out, and the redirect comes before the form's end": { phone in
        try await signOutAndIn(phone, isFormFirst: false)
    },
    "a link is followed while a sign-out waits for its answer": { phone in
        try await phone.useAllTabs()
        phone.select(2)
        try await phone.sees("alice /account")
        try await phone.signOut(meanwhile: {
            try await phone.until("the shell knows that the user leaves") { phone.shell?.isLeaving == true }
            phone.follow("/account/orders")
            try phone.check(
                "the page that signs out stays", phone.navigator.rootViewController.viewControllers.count == 2)
        })
        try await phone.sees("nobody /sign_in")
    },
    "bob signs in where alice's session has ended": { phone in
        try await phone.useAllTabs()
        phone.select(1)
        phone.follow("/notifications/9")
        try await phone.sees("alice /notifications/9")
        phone.select(0)
        Site.user = nil
        phone.follow("/orders")
        try await phone.sees("nobody /sign_in")
        phone.signIn("bob")
        try await phone.until("bob's device is registered") { try await phone.calls().contains("POST /device_tokens bob") }
        // The shell hears of the new user on the main actor, maybe after the server does.
        try await phone.until("alice's page in another tab is gone") { !phone.behind(1).hasPrefix("alice") }
        phone.always = ("nothing of alice's is shown", { !phone.seen.hasPrefix("alice") })
        try await phone.seesInEachTab("bob")
        phone.navigator.pop()
        try await phone.sees("bob /account")
    },
    "the loading of a hidden tab is called off": { phone in
        Site.user = "alice"
        Library.mainLoadsAllTabs = true
        Site.outcome = { url in url.path != "/dashboard" && asked(url.path) == 1 ? .failed(-999) : nil }
        phone.launch()
        try await phone.sees("alice /dashboard")
        // Where tabs load when they are selected: away again before it is there.
        phone.held = { $0.path == "/account" }
        phone.select(2)
        phone.step()
        phone.select(0)
        phone.held = { _ in false }
        try await phone.sees("alice /dashboard")
        phone.select(2)
        try await phone.sees("alice /account")
        phone.select(1)
        try await phone.sees("alice /notifications")
        try phone.check("a tab is loaded once more", tabs.map(asked) == [1, 2, 2])
    },
    "the loading of the tab that shows is called off for ever": { phone in
        Site.user = "alice"
        Site.outcome = { _ in .failed(-999) }
        phone.launch()
        try await phone.until("it is loaded once more") { asked("/dashboard") == 2 }
        for _ in 0..<5 { phone.step() }
        try phone.check("it is loaded once more, and not again", asked("/dashboard") == 2)
        Site.outcome = { _ in nil }
        phone.select(1)
        try await phone.sees("alice /notifications")
        phone.select(0)
        try await phone.sees("alice /dashboard")
    },
    "a push is tapped while nobody is signed in": { phone in
        refuseNobody()
        Library.mainLoadsAllTabs = true
        phone.launch()
        try await phone.sees("nobody /sign_in")
        phone.tapPush(link: "home/soptamp")
        try await phone.until("its page is asked for, and the sign-in comes again") {
            asked("/home/soptamp") > 0 && asked("/sign_in") == 2 && phone.signInShows
        }
        phone.signIn("alice", to: "/welcome")
        try await phone.sees("alice /welcome")
        try await phone.seesTabsAgain()
    },
    "the scene connects again while the sign-in is up": { phone in
        refuseNobody()
        phone.launch()
        try await phone.sees("nobody /sign_in")
        weak let former = phone.shell
        phone.disconnect()
        Site.asked = []
        phone.connect()
        try await phone.until("the sign-in comes in the new window") { phone.signInShows && asked("/sign_in") == 1 }
        phone.signIn("alice")
        try await phone.sees("alice /dashboard")
        try await phone.seesInEachTab("alice")
        try await phone.until("the window that went has let its shell go") { former == nil }
    },
    "no tab is the notifications'": { phone in
        Site.user = "alice"
        phone.launch { settings in
            settings["tabs"] = [
                ["title": "Home", "icon": "house", "path": "/dashboard"], ["title": "Account", "path": "/account"],
            ]
        }
        phone.token()
        try await phone.sees("alice /dashboard")
        try await phone.until("the number is there") { Services.shared.badge.count == 3 }
        try phone.tapBell()
        try await phone.sees("alice /notifications")
        try await phone.until("the number is cleared") { try await phone.calls().contains("DELETE /badge alice") }
        phone.select(1)
        try await phone.sees("alice /account")
        phone.tapPush(link: "/notifications")
        try await phone.sees("alice /notifications")
    },
    "a push leads to the inbox, whose tab has never been shown": { phone in
        Site.user = "alice"
        phone.launch()
        try await phone.sees("alice /dashboard")
        phone.tapPush(link: "/notifications")
        try await phone.sees("alice /notifications")
        try phone.check("its tab is selected", phone.tabBar.selectedIndex == 1 && asked("/notifications") == 1)
    },
    "the page of the inbox is older than the push": { phone in
        Site.user = "alice"
        phone.launch()
        phone.select(1)
        try await phone.sees("alice /notifications")
        let before = phone.topPage?.visitableView.shows
        phone.follow("/notifications/9")
        try await phone.sees("alice /notifications/9")
        phone.tapPush(link: "/notifications")
        try await phone.sees("alice /notifications")
        try phone.check("its list is newer than the push", phone.topPage?.visitableView.shows != before)
    },
    "a link leads to the page of a tab that has never been shown": { phone in
        Site.user = "alice"
        phone.launch()
        try await phone.sees("alice /dashboard")
        phone.follow("/account")
        try await phone.sees("alice /account")
        try phone.check("its tab is selected", phone.tabBar.selectedIndex == 2 && asked("/account") == 1)
    },
    "the sign-in is closed": { phone in
        refuseNobody()
        Library.mainLoadsAllTabs = true
        phone.launch()
        try await phone.sees("nobody /sign_in")
        try phone.tapClose()
        try await phone.sees("\"You are signed out. Sign in to continue.\" Retry")
        try phone.tapRetry()
        try await phone.until("the sign-in comes again") { phone.signInShows && asked("/sign_in") == 2 }
        phone.signIn("alice", to: "/welcome")
        try await phone.sees("alice /welcome")
        try await phone.seesTabsAgain()
    },
    "the sign-in can't be pulled down, and where it can the page says why it is blank": { phone in
        refuseNobody()
        phone.launch()
        try await phone.sees("nobody /sign_in")
        phone.tabBar.pullDown()
        try phone.check("it stays", phone.signInShows)
        phone.top?.isModalInPresentation = false
        phone.tabBar.pullDown()
        try await phone.sees("\"You are signed out. Sign in to continue.\" Retry")
    },
    "one page is refused to somebody who is signed in": { phone in
        Site.user = "alice"
        Site.outcome = { url in url.path == "/orders" ? .status(401) : nil }
        phone.launch { $0["tabs"] = [["title": "Home", "path": "/dashboard"]] }
        phone.token()
        try await phone.sees("alice /dashboard")
        try await phone.handsToken(1)
        phone.follow("/orders")
        try await phone.sees("alice /sign_in")
        try await phone.handsToken(2)
        phone.step()
        try phone.check("the refused page waits for the sign-in that shows", asked("/orders") == 1)
        for times in 1...2 {
            phone.signIn("alice", to: "/welcome")
            try await phone.sees("alice /welcome")
            try await phone.handsToken(2 * times + 1)
            if times == 2 { Site.outcome = { _ in nil } }
            phone.navigator.pop()
            guard times == 1 else { break }
            try await phone.sees("\"You are signed out. Sign in to continue.\" Retry")
            try phone.check("it isn't sent to the sign-in again", asked("/orders") == 2 && asked("/sign_in") == 1)
            try phone.tapRetry()
            try await phone.until("the sign-in comes again") { phone.seen == "alice /sign_in" && asked("/sign_in") == 2 }
            try await phone.handsToken(4)
        }
        try await phone.sees("alice /orders")
    },
    "the user goes back from a sign-in that stands on a modal page": { phone in
        Site.user = "alice"
        refuseNobody()
        phone.launch()
        try await phone.sees("alice /dashboard")
        Site.user = nil
        phone.follow("/orders/new")
        try await phone.sees("nobody /sign_in")
        try phone.check("it stands on the page", phone.navigator.modalRootViewController.viewControllers.count == 2)
        phone.navigator.pop()
        try await phone.sees("\"You are signed out. Sign in to continue.\" Retry")
        try phone.check("the sign-in doesn't come back by itself", asked("/sign_in") == 1)
        try phone.tapRetry()
        try await phone.until("the sign-in comes again") { phone.signInShows && asked("/sign_in") == 2 }
        phone.signIn("alice", to: "/welcome")
        try await phone.sees("alice /welcome")
    },
    "a link on a public page leads to the sign-in": { phone in
        Site.user = nil
        phone.launch { $0["tabs"] = [["title": "Home", "path": "/dashboard"]] }
        phone.token()
        try await phone.sees("nobody /dashboard")
        phone.follow("/sign_in")
        try await phone.sees("nobody /sign_in")
        phone.signIn("alice", to: "/orders")
        try await phone.sees("alice /orders")
        try await phone.handsToken(1)
        phone.step()
        try await phone.sees("alice /orders")
        try phone.check("the page that follows isn't loaded a second time", asked("/orders") == 0)
        phone.navigator.pop()
        try await phone.sees("alice /dashboard")
    },
    "the sign-in leads to a tab's own page, which waits": { phone in
        refuseNobody()
        phone.launch()
        try await phone.sees("nobody /sign_in")
        try phone.tapClose()
        try await phone.until("the tab says why it is blank") { phone.seen.hasSuffix("Retry") }
        phone.select(1)
        try await phone.sees("nobody /sign_in")
        let before = asked("/dashboard")
        phone.signIn("alice")
        try await phone.sees("alice /dashboard")
        try await phone.handsToken(1)
        phone.step()
        try await phone.sees("alice /dashboard")
        try phone.check("it is loaded once", asked("/dashboard") == before + 1)
    },
    "a link in the sign-in takes it away": { phone in
        Site.user = nil
        Site.outcome = { url in tabs.contains(url.path) && Site.user == nil ? .status(401) : nil }
        phone.launch()
        try await phone.sees("nobody /sign_in")
        phone.follow("/about")
        try await phone.sees("nobody /about")
        let before = asked("/sign_in")
        phone.select(1)
        try await phone.until("the sign-in comes again") { phone.signInShows && asked("/sign_in") == before + 1 }
        phone.signIn("alice", to: "/welcome")
        try await phone.sees("alice /welcome")
        phone.navigator.pop()
        try await phone.sees("alice /notifications")
    },
    "a page has failed, and its user signs out": { phone in
        try await phone.useAllTabs()
        Site.outcome = { url in
            url.path == "/orders" ? .status(503) : Site.user == nil && url.path != "/sign_in" ? .status(401) : nil
        }
        phone.select(0)
        phone.follow("/orders")
        try await phone.until("it is said that the server can't") { phone.seen.hasSuffix("Retry") }
        weak let former = phone.navigator.session.webView
        phone.select(2)
        try await phone.sees("alice /account")
        try await phone.signOut()
        try await phone.sees("nobody /sign_in")
        try await phone.until("the former user's web view is let go") { former == nil }
    },
    "pages fail": { phone in
        Site.user = "alice"
        phone.launch()
        try await phone.sees("alice /dashboard")
        Site.outcome = { url in url.path == "/reports" ? .failed(NSURLErrorCannotConnectToHost) : nil }
        phone.follow("/reports")
        let lost = ClientFailure(pageStatus: nil, code: NSURLErrorNetworkConnectionLost)?.message ?? ""
        try await phone.sees("\"\(lost)\" Retry")
        phone.navigator.pop()
        try await phone.sees("alice /dashboard")
        for (status, text) in [(403, "You have no access to this."), (404, "This no longer exists.")] {
            Site.outcome = { url in url.path == "/orders" ? .status(status) : nil }
            phone.follow("/orders")
            try await phone.sees("\"\(text)\"")
            phone.navigator.pop()
            try await phone.sees("alice /dashboard")
        }
        Site.outcome = { url in url.path == "/orders" ? .status(503) : nil }
        phone.follow("/orders")
        for times in 1...3 {
            try await phone.until("it is said that the server can't") {
                asked("/orders") == 2 + times && phone.seen.hasSuffix("Retry")
            }
            try phone.check("once", phone.topPage?.view.subviews.filter { $0 is FailureView }.count == 1)
            try phone.tapRetry()
        }
        Site.outcome = { _ in nil }
        try await phone.sees("alice /orders")
    },
    "the inbox fails, and then shows": { phone in
        Site.user = "alice"
        Site.outcome = { url in url.path == "/notifications" ? .status(503) : nil }
        phone.launch()
        phone.token()
        try await phone.until("the number is there") { Services.shared.badge.count == 3 }
        phone.select(1)
        try await phone.until("it is said that the server can't") { phone.seen.hasSuffix("Retry") }
        // Long enough for what was begun.
        for _ in 1...3 { await Services.shared.push.refresh() }
        let calls = try await phone.calls()
        try phone.check("an inbox that isn't seen clears nothing", !calls.contains("DELETE /badge alice"))
        Site.outcome = { _ in nil }
        try phone.tapRetry()
        try await phone.until("the number is cleared") {
            let calls = try await phone.calls()
            return Services.shared.badge.count == 0 && calls.contains("DELETE /badge alice")
        }
    },
    "the sign-in's paths are the server's": { phone in
        Site.user = nil
        phone.launch { $0["sign_in"] = ["^/login$", "^/join$"] }
        try await phone.sees("nobody /dashboard")
        phone.follow("/join")
        try await phone.until("it is presented") { phone.seen == "nobody /join" }
        try phone.check("the gate knows", phone.shell?.gate.isPresenting == true)
        try phone.check("no bell stands on it", phone.top?.navigationItem.rightBarButtonItems?.isEmpty ?? true)
    },
    "bars, tabs and words for VoiceOver": { phone in
        Site.user = "alice"
        phone.launch { settings in
            settings["tabs"] = [
                ["icon": "house", "path": "/dashboard"], ["icon": "bell", "path": "/notifications", "notifications": true],
            ]
        }
        phone.token()
        try await phone.sees("alice /dashboard")
        phone.follow("/orders")
        // The page slides in.
        Screen.settle()
        let bar = phone.topPage?.navigationItem
        try phone.check("the bell is there before the page is", bar?.rightBarButtonItems?.first?.tag == Bell.tag)
        try phone.check("the menu has a name", bar?.leftBarButtonItems?.first?.accessibilityLabel == "Menu")
        let images = phone.tabItems.map { $0.image?.name }
        try phone.check("a symbol without a title stands low", images == ["house at 12", "bell at 12"])
        try await phone.until("the number stands at the bell and on the tab") {
            let bell = bar?.rightBarButtonItems?.first?.customView
            return bell?.accessibilityLabel == "Notifications, 3 new" && phone.tabItems.map(\.badge) == [nil, "3"]
        }
        try phone.check("each tab has a name", phone.tabItems.map(\.label) == ["Dashboard", "Notifications"])
    },
    "permission is asked for after the sign-in": { phone in
        refuseNobody()
        phone.launch()
        try await phone.sees("nobody /sign_in")
        try await phone.until("the token is asked for") { UIApplication.shared.asked == ["register"] }
        try phone.check("permission isn't", UNUserNotificationCenter.current().asked.isEmpty)
        phone.signIn("alice")
        try await phone.until("permission is asked for") {
            UNUserNotificationCenter.current().asked == [[.alert, .badge, .sound]]
        }
        _ = try await Services.shared.registration.askForAlerts(provisional: true)
        try phone.check("provisional", UNUserNotificationCenter.current().asked.last?.contains(.provisional) == true)
        UNUserNotificationCenter.current().answer = { false }
        let isAllowed = try await Services.shared.registration.askForAlerts()
        try phone.check("a refusal is told", !isAllowed)
        UNUserNotificationCenter.current().answer = { throw CancellationError() }
        let told = try? await Services.shared.registration.askForAlerts()
        try phone.check("an error of the system's is thrown", told == nil)
    },
    "a page without the bridge says its number": { phone in
        Site.user = "alice"
        phone.launch()
        phone.token()
        try await phone.until("the number is there") { Services.shared.badge.count == 3 }
        try await phone.tell("count/7")
        let page = phone.navigator.session.webView.configuration.userContentController
        try phone.check("the app receives it", page.post(["count": 8], to: "badge"))
        try await phone.until("the number is the server's") { Services.shared.badge.count == 7 }
    },
]

/// Alice has a page above her tab's own, and signs out there.
@MainActor
func signOutAndIn(_ phone: Phone, isFormFirst: Bool) async throws {
    try await phone.useAllTabs()
    phone.select(1)
    phone.follow("/notifications/9")
    try await phone.sees("alice /notifications/9")
    phone.select(2)
    try await phone.sees("alice /account")
    try await phone.signOut(isFormFirst: isFormFirst)
    phone.always = (
        "nothing of alice's is shown",
        { !phone.seen.hasPrefix("alice") && !(0..<3).contains { phone.behind($0).hasPrefix("alice") } }
    )
    try await phone.sees("nobody /sign_in")
    try phone.tapClose()
    try await phone.until("the tab says why it is blank") { phone.seen.hasSuffix("Retry") }
    phone.select(0)
    try await phone.sees("nobody /sign_in")
    phone.signIn("bob")
    try await phone.sees("bob /dashboard")
    try await phone.seesInEachTab("bob")
    try await phone.until("bob's device is registered") {
        try await phone.calls().last { $0.contains("/device_tokens") } == "POST /device_tokens bob"
    }
}

@main
enum Play {
    /// Arguments: the scene, the version, the patience.
    @MainActor static func main() async {
        setvbuf(stdout, nil, _IOLBF, 0)
        guard let scene = scenes[CommandLine.arguments[1]], let version = Library(rawValue: CommandLine.arguments[2]) else {
            print(scenes.keys.sorted().joined(separator: "\n"))
            exit(2)
        }
        Library.version = version
        do {
            try await scene(Phone())
            exit(0)
        } catch {
            print("WRONG", error)
            exit(1)
        }
    }
}
