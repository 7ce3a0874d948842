"""What examples/ios once did, for ios_shell.py: put back, it must make a scene go wrong, and with these words."""
import dataclasses


@dataclasses.dataclass
class Piece:
    """Swift of the app: what stands there now, once, and what stood there."""
    file: str
    now: str
    then: str

    def switched(self, name):
        """Both, behind the switch; OLD in `then` is the switch where the piece is no statement."""
        switch = f'old("{name}")'
        return self.then.replace("OLD", switch) if "OLD" in self.then else f"if {switch} {{ {self.then} }} else {{ {self.now} }}"


@dataclasses.dataclass
class Control:
    name: str
    what: str
    scene: str
    version: str
    wrong: str
    pieces: list[Piece]


SHOWING = "        guard gate.isPresenting, let modal = signInNavigator?.modalRootViewController, modal.isPresented else { return false }"
REFUSED = "        // Nothing is shown in its place"
FORGETFUL = [
    Piece("Shell.swift", "    let gate = AuthGate()", "    var gate = OLD ? AuthGate() : AuthGate()"),
    Piece("Shell+Pages.swift", REFUSED, "        if OLD { _ = signIn(from: nil, for: nil) { retryHandler?() }; return }\n" + REFUSED),
    Piece("Shell+SignIn.swift", "        tabBar.dismiss(animated: false)\n        gate.finish(signedIn: false)",
          "        tabBar.dismiss(animated: false)\n        if OLD { gate = AuthGate() } else { gate.finish(signedIn: false) }"),
]
CONTROLS = [
    Control("error", "1: the error page that a refused tab shows, and keeps after the sign-in",
            "three tabs are refused, and somebody signs in", "main", "it is error page", [
                Piece("Shell+Pages.swift", REFUSED,
                      "        if OLD { page.presentError(error, retryHandler: retryHandler); _ = signIn(from: nil, for: nil) "
                      "{ retryHandler?() }; return }\n" + REFUSED)]),
    Control("user", "2: the former user's pages in the other tabs after a sign-out",
            "alice signs out, and bob signs in", "1.3.0-beta", "nothing of alice's is shown: it is", [
                Piece("Shell.swift", "self?.userChanged(change)", "if OLD { self?.signedIn() } else { self?.userChanged(change) }")]),
    Control("early", "2: the page that signs out taken away before it has ended the session",
            "a link is followed while a sign-out waits for its answer", "1.3.0-beta", "the page that signs out stays", [
                Piece("Shell+SignIn.swift", "        guard isLeaving, mayEndWebSession else { return false }",
                      "        guard isLeaving, mayEndWebSession || OLD else { return false }")]),
    Control("users", "2: the former user's pages after another one has signed in",
            "bob signs in where alice's session has ended", "main", "alice's page in another tab is gone", [
                Piece("Shell+SignIn.swift", "        if change.former != nil || isLeaving { beginAnew() }",
                      "        if OLD { } else if change.former != nil || isLeaving { beginAnew() }")]),
    Control("snapshots", "an inbox out of Turbo's cache for a push",
            "the page of the inbox is older than the push", "1.3.0-beta", "its list is newer than the push", [
                Piece("Shell+SignIn.swift", "        navigator.session.clearSnapshotCache()",
                      "        if !OLD { navigator.session.clearSnapshotCache() }")]),
    Control("bell", "3: the bell without a notifications' tab", "no tab is the notifications'", "1.3.0-beta",
            "the user sees alice /notifications: it is alice /dashboard", [
                Piece("Shell+DeepLinks.swift", "            putModalsAway()\n            tabBar.activeNavigator.route(url)",
                      "            putModalsAway()\n            if !OLD { tabBar.activeNavigator.route(url) }")]),
    Control("dropped", "4: -999 passed over, of a tab that is selected later", "the loading of a hidden tab is called off", "1.3.0-beta",
            "the user sees alice /account: it is nothing /account", [
                Piece("Shell+Pages.swift", "else { return page.wasCalledOff(retryHandler) }",
                      "else { return OLD ? () : page.wasCalledOff(retryHandler) }")]),
    Control("unseen tab", "4: the retry before the page has appeared", "the loading of a hidden tab is called off", "1.2.2",
            "the user sees alice /account: it is nothing /account", [
                Piece("PageViewController.swift", "        super.viewDidAppear(animated)\n        isOnScreen = true",
                      "        isOnScreen = true\n        if OLD { loadIfMissing() }\n        super.viewDidAppear(animated)")]),
    Control("started", "4: a tab cleared that never started", "a push leads to the inbox, whose tab has never been shown", "1.3.0-beta",
            "the user sees alice /notifications", [
                Piece("Shell.swift", "{ owner.start() } else { owner.clearAll() }",
                      "{ if OLD { owner.clearAll() } else { owner.start() } } else { owner.clearAll() }")]),
    Control("push", "5: the gate that a push makes forget the other tabs", "a push is tapped while nobody is signed in", "main",
            "the user sees alice /notifications: it is nothing /notifications", FORGETFUL),
    Control("loop", "a page that is refused to whoever is signed in, and sent to the sign-in for ever",
            "one page is refused to somebody who is signed in", "1.3.0-beta", "it is alice /sign_in", [
                Piece("Shell+Pages.swift", "!page.wasAtSignIn else {", "OLD || !page.wasAtSignIn else {")]),
    Control("own", "a gate that the sign-in's own page opens", "one page is refused to somebody who is signed in", "1.3.0-beta",
            "the refused page waits for the sign-in that shows", [
                Piece("Shell+SignIn.swift", "        if let page = top as? any Visitable", "        if !OLD, let page = top as? any Visitable")]),
    Control("back", "a sign-in that comes again when the user goes back from it to a modal page",
            "the user goes back from a sign-in that stands on a modal page", "1.3.0-beta", "Retry: it is no", [
                Piece("Shell+SignIn.swift", "        guard modal.topViewController === screen,", "        guard !OLD, modal.topViewController === screen,")]),
    Control("public", "two loads of the page that follows a sign-in by a link", "a link on a public page leads to the sign-in", "1.3.0-beta",
            "the page that follows isn't loaded a second time", [
                Piece("Shell+Pages.swift", "            guard let page, page.renders",
                      "            if OLD { session?.reload(); return }\n            guard let page, page.renders")]),
    Control("own page", "two loads of a tab's own page that waits", "the sign-in leads to a tab's own page, which waits", "1.3.0-beta",
            "it is loaded once", [
                Piece("Shell.swift", "        (navigators[tabs[index].url]?.rootViewController.viewControllers.first as? PageViewController)?.isMissing(nil)",
                      "        if !OLD { (navigators[tabs[index].url]?.rootViewController.viewControllers.first as? PageViewController)?"
                      ".isMissing(nil) }")]),
    Control("gone", "a sign-in that is thought to show after a link in it took it away", "a link in the sign-in takes it away", "1.3.0-beta",
            "the sign-in comes again", [
                Piece("Shell+SignIn.swift", SHOWING, "        if OLD { return gate.isPresenting }\n" + SHOWING)]),
    Control("memory", "a failed page that keeps the former user's web view", "a page has failed, and its user signs out", "1.3.0-beta",
            "the former user's web view is let go", [
                Piece("Shell+SignIn.swift", "        forgetMissingPages()\n        loadTabs()",
                      "        if !OLD { forgetMissingPages() }\n        loadTabs()")]),
    Control("unanswered", "a page that got no answer, and is said to have failed for an unknown reason", "pages fail", "1.3.0-beta", "the user sees", [
        Piece("Versions.swift", "        case .http(statusCode: 0)?, .networkFailure?:", "        case .http(statusCode: 0)? where !OLD, .networkFailure?:")]),
    Control("window", "5: one gate for all windows", "the scene connects again while the sign-in is up", "1.3.0-beta",
            "the sign-in comes in the new window: it is nothing /dashboard", [
                Piece("Shell.swift", "var gate = old(\"push\") ? AuthGate() : AuthGate()", "var gate = OLD ? gateOfAllWindows : AuthGate()"),
                Piece("Shell+SignIn.swift", "            if !isSignInShowing {", "            if !(OLD && signInNavigator == nil), !isSignInShowing {")]),
    Control("kept", "5: a window's shell that its tab bar keeps", "the scene connects again while the sign-in is up", "1.3.0-beta",
            "the window that went has let its shell go", [
                Piece("Shell.swift", "        tabBar = HotwireTabBarController()", "        if !OLD { tabBar = HotwireTabBarController() }")]),
    Control("closed", "5: a page that stays blank when the sign-in is closed", "the sign-in is closed", "1.3.0-beta",
            "it is nothing /dashboard", [
                Piece("Shell+SignIn.swift", "{ page.signInWasPutAway() }", "where !OLD { page.signInWasPutAway() }")]),
    Control("retry", "5: Retry where it leads to a blank page", "pages fail", "main", "it is error page", [
        Piece("Shell+Pages.swift", "            return page.show(failure, retry: failure.offersRetry || failure.kind == .signedOut ? retryHandler : nil)",
              "            if OLD { return page.presentError(error, retryHandler: nil) }\n"
              "            return page.show(failure, retry: failure.offersRetry || failure.kind == .signedOut ? retryHandler : nil)")]),
    Control("paths", "6: fixed paths of the sign-in", "the sign-in's paths are the server's", "1.3.0-beta", "the gate knows", [
        Piece("Shell+SignIn.swift", "{ SignInPaths(settings: Hotwire.config.pathConfiguration.settings) }",
              "{ OLD ? SignInPaths([\"^/sign_in$\"]) : SignInPaths(settings: Hotwire.config.pathConfiguration.settings) }")]),
    Control("twice", "10: two reloads after the sign-in", "three tabs are refused, and somebody signs in", "main",
            "a page is loaded once after the sign-in", [
                Piece("Shell+Pages.swift", "{ [weak page] in page?.signInIsDone() }",
                      "{ [weak page] in if OLD { retryHandler?() } else { page?.signInIsDone() } }")]),
    Control("bars", "10: bars only when the page has come", "bars, tabs and words for VoiceOver", "1.3.0-beta",
            "the bell is there before the page is", [
                Piece("Shell+Bars.swift", "willShow viewController: UIViewController, animated: Bool\n    ) {",
                      "willShow viewController: UIViewController, animated: Bool\n    ) {\n        if OLD { return }")]),
    Control("asked", "10: permission asked for at the launch", "permission is asked for after the sign-in", "1.3.0-beta", "permission isn't", [
        Piece("Services.swift", "{ await $0.registration.start() }",
              "{ if OLD { try await $0.registration.askForAlerts() }; await $0.registration.start() }")]),
    Control("plain", "10: no receiver for messageHandlers.badge", "a page without the bridge says its number", "1.3.0-beta",
            "the app receives it", [
                Piece("AppDelegate.swift", "            configuration.userContentController.add(BadgeMessages(), name: BadgeMessages.name)",
                      "            if !OLD { configuration.userContentController.add(BadgeMessages(), name: BadgeMessages.name) }")]),
    Control("unseen", "a number cleared by an inbox that couldn't be loaded", "the inbox fails, and then shows", "1.3.0-beta",
            "an inbox that isn't seen clears nothing", [
                Piece("PageViewController.swift", "        guard isSeen, currentVisitableURL", "        guard OLD || isSeen, currentVisitableURL")]),
]

# Put back in the app with main's patch applied.
PATCH_CONTROLS = [
    Control("status", "a status of Turbo's, taken for a number of the system's", "pages fail", "main", "the user sees", [
        Piece("Versions.swift", "if code == nil, case .web(let error) = error {",
              "if case .web(let error) = error, OLD { code = error.errorCode } else if code == nil, case .web(let error) = error {")]),
]
