import CampanileClient
import HotwireNative
import UIKit

/// A page of the web site: loads again when it is seen, if it isn't there; shows why it can't be loaded; and tells when
/// the user sees the inbox, by whatever way.
final class PageViewController: HotwireWebViewController {
    /// How a page that isn't there is loaded.
    struct Missing {
        /// For the user, where the page stays blank.
        let failure: ClientFailure?
        /// False as long as loading it would fail again.
        let mayLoad: () -> Bool
        let load: () -> Void

        init(because failure: ClientFailure? = nil, until mayLoad: @escaping () -> Bool = { true }, load: (() -> Void)?) {
            self.failure = failure
            self.mayLoad = mayLoad
            self.load = load ?? {}
        }
    }

    private var missing: Missing?
    private var isOnScreen = false
    private var isRendered = false
    /// True after it was loaded again without having been away: if that is called off too, it waits until it is seen anew.
    private var isLoadedAgain = false
    /// True while a page that was sent to the sign-in is loaded after it: another sign-in wouldn't help.
    private(set) var wasAtSignIn = false
    /// How often it was rendered.
    private(set) var renders = 0
    private var failureView: FailureView?

    /// True if the user sees the page, and not why it isn't there.
    var isSeen: Bool { isOnScreen && isRendered && failureView == nil }

    // MARK: A page that isn't there

    /// The page is loaded as soon as it may be and is on the screen; nil: it is there, or is loading.
    func isMissing(_ missing: Missing?) {
        if missing != nil { isRendered = false }
        show(nil)
        self.missing = missing
    }

    /// The loading was stopped, or replaced by another.
    func wasCalledOff(_ load: (() -> Void)?) {
        isMissing(Missing(load: load))
        guard isOnScreen, !isLoadedAgain else { return }
        isLoadedAgain = true
        loadIfMissing()
    }

    func loadIfMissing() {
        guard isOnScreen, let missing, missing.mayLoad() else { return }
        isMissing(nil)
        missing.load()
    }

    /// Says why the page isn't there, with a button only where loading it again may help.
    func show(_ failure: ClientFailure?, retry: (() -> Void)? = nil) {
        if failure != nil { isRendered = false }
        failureView?.removeFromSuperview()
        failureView = failure.map { failure in
            FailureView(
                failure.message,
                retry: retry.map { load in
                    { [weak self] in
                        self?.wasAtSignIn = false
                        self?.isMissing(nil)
                        load()
                    }
                })
        }
        failureView?.fill(view)
    }

    /// Somebody has signed in, so the page loads.
    func signInIsDone() {
        guard missing != nil else { return }
        wasAtSignIn = true
        loadIfMissing()
    }

    /// The user went back to the page from the sign-in, and the library visits it again.
    func signInWasLeft() { wasAtSignIn = true }

    /// Says that nobody has signed in, where the page would stay blank.
    func signInWasPutAway() {
        guard let missing, let failure = missing.failure else { return }
        show(failure, retry: missing.load)
    }

    // MARK: What the library tells

    override func viewWillAppear(_ animated: Bool) {
        // The library visits the page again by itself.
        if appearReason == .revealedByPop { isMissing(nil) }
        super.viewWillAppear(animated)
    }

    override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        isOnScreen = true
        isLoadedAgain = false
        // Up to 1.3.0-beta the library's retry needs a page that has appeared, so it comes after `super`.
        loadIfMissing()
        lookedAt()
    }

    override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        isOnScreen = false
    }

    override func visitableDidRender() {
        super.visitableDidRender()
        isMissing(nil)
        isRendered = true
        isLoadedAgain = false
        wasAtSignIn = false
        renders += 1
        lookedAt()
    }

    private func lookedAt() {
        guard isSeen, currentVisitableURL.path == Addresses.inbox else { return }
        Task { await Services.shared.push.inboxAppeared() }
    }
}
