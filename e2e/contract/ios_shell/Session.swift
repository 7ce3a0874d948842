// Hotwire Native's Session and its pages, made again from its sources at 1.3.0-beta; each rule names the file that it is from,
// under Source/Turbo. What 1.2.2 and main do otherwise is asked of `Library`.
@_exported public import UIKit
@_exported public import WebKit

/// Which version the library is.
public enum Library: String {
    case v1_2_2 = "1.2.2"
    case v1_3_0_beta = "1.3.0-beta"
    case main
    nonisolated(unsafe) public static var version = Library.v1_3_0_beta
    /// ViewControllers/HotwireTabBarController.swift: main's `Hotwire.config.lazyLoadTabs`, an option there alone.
    nonisolated(unsafe) public static var mainLoadsAllTabs = false
    static var loadsAllTabs: Bool { version == .v1_2_2 || version == .main && mainLoadsAllTabs }
}

public enum VisitAction { case advance, replace, restore }

public struct VisitResponse {
    public let redirected: Bool
    /// The library has `responseHTML` here.
    public let page: Page?
    public init(redirected: Bool, page: Page?) { (self.redirected, self.page) = (redirected, page) }
}

public struct VisitOptions {
    public let action: VisitAction
    public let response: VisitResponse?
    public init(action: VisitAction = .advance, response: VisitResponse? = nil) {
        (self.action, self.response) = (action, response)
    }
}

/// Visitable/VisitableView.swift: the web view is hidden as long as its cover, with the screenshot if there is one, is shown.
@MainActor public final class VisitableView: UIView {
    fileprivate(set) public var webView: WKWebView?
    fileprivate var isCovered = false
    fileprivate var screenshot: Page?
    /// The page that the user sees in it; nil for a blank page.
    public var shows: Page? { isCovered ? screenshot : webView?.page }
    fileprivate func cover() { isCovered = true }
    fileprivate func photograph() { if !isCovered, let page = webView?.page { screenshot = page } }
}

@MainActor public protocol Visitable: AnyObject {
    var visitableViewController: UIViewController { get }
    var visitableDelegate: Session? { get set }
    var visitableView: VisitableView { get }
    var initialVisitableURL: URL { get }
    var currentVisitableURL: URL { get }
    func visitableDidRender()
}

/// Visitable/VisitableViewController.swift.
@MainActor open class VisitableViewController: UIViewController, Visitable {
    public enum AppearReason { case pushedOntoNavigationStack, revealedByPop, tabSelected, revealedByModalDismiss }
    public enum DisappearReason { case coveredByPush, poppedFromNavigationStack, tabDeselected, coveredByModal }
    open weak var visitableDelegate: Session?
    open var appearReason = AppearReason.pushedOntoNavigationStack
    open var disappearReason = DisappearReason.poppedFromNavigationStack
    public let initialVisitableURL: URL
    public private(set) lazy var visitableView = VisitableView()
    private var address: URL?
    public var currentVisitableURL: URL { address ?? initialVisitableURL }
    public var visitableViewController: UIViewController { self }

    public init(url: URL) {
        initialVisitableURL = url
        super.init(nibName: nil, bundle: nil)
    }
    public required init?(coder: NSCoder) { nil }

    open override func viewDidLoad() {
        super.viewDidLoad()
        view.addSubview(visitableView)
    }
    // A tab that is selected tells its session nothing.
    open override func viewWillAppear(_ animated: Bool) {
        super.viewWillAppear(animated)
        if appearReason != .tabSelected { visitableDelegate?.willAppear(self) }
    }
    open override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        if appearReason != .tabSelected { visitableDelegate?.didAppear(self) }
    }
    open override func viewWillDisappear(_ animated: Bool) {
        super.viewWillDisappear(animated)
        if disappearReason != .tabDeselected { visitableDelegate?.willDisappear(self) }
    }
    open override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        if disappearReason != .tabDeselected { visitableDelegate?.didDisappear(self) }
    }
    open func visitableDidRender() { address = visitableView.webView?.page?.url }
}

/// Visit/Visit.swift, ColdBootVisit.swift, JavaScriptVisit.swift.
@MainActor private final class Visit {
    enum State { case initialized, started, canceled, failed, completed }
    let visitable: any Visitable
    let options: VisitOptions
    let isColdBoot: Bool
    let location: URL
    var state = State.initialized
    var request: Site.Request?

    init(_ visitable: any Visitable, _ options: VisitOptions, isColdBoot: Bool) {
        (self.visitable, self.options, self.isColdBoot) = (visitable, options, isColdBoot)
        location = visitable.currentVisitableURL
    }

    func cancel() {
        guard state == .started else { return }
        state = .canceled
        request?.isCalledOff = true
    }
}

/// Session/Session.swift.
@MainActor public class Session: NSObject {
    weak var delegate: Navigator?
    public let webView: WKWebView
    private var isInitialized = false
    private var currentVisit: Visit?
    private var topmostVisit: Visit?
    private var previousVisit: Visit?
    private var isSnapshotCacheStale = false
    public private(set) var activeVisitable: (any Visitable)?
    public var topmostVisitable: (any Visitable)? { topmostVisit?.visitable }

    init(_ webView: WKWebView) {
        self.webView = webView
        super.init()
    }

    public func visit(_ visitable: any Visitable, action: VisitAction) { visit(visitable, options: VisitOptions(action: action)) }

    public func visit(_ visitable: any Visitable, options: VisitOptions? = nil, reload: Bool = false) {
        visitable.visitableDelegate = self
        if reload { isInitialized = false }
        let visit = Visit(visitable, options ?? VisitOptions(), isColdBoot: !isInitialized)
        currentVisit?.cancel()
        currentVisit = visit
        start(visit)
    }

    /// Of the page that has completed its navigation last; before a first one has, nothing.
    public func reload() {
        guard let visitable = topmostVisitable else { return }
        isInitialized = false
        visit(visitable)
        topmostVisit = currentVisit
    }

    public func clearSnapshotCache() { webView.snapshots = [:] }
    public func markSnapshotCacheAsStale() { isSnapshotCacheStale = true }

    private func start(_ visit: Visit) {
        visit.visitable.visitableView.cover()
        activate(visit.visitable)
        visit.state = .started
        if let page = visit.options.response?.page {
            visit.request = Site.later { [weak self, weak visit] in self?.rendered(page, visit) }
        } else if visit.isColdBoot {
            visit.request = webView.load(visit.location) { [weak self, weak visit] outcome in self?.answered(outcome, visit) }
        } else {
            startByTurbo(visit)
        }
    }

    /// WebView/turbo.js, and Turbo's own visits: what is in the cache is shown at once, for a restoration without a request.
    private func startByTurbo(_ visit: Visit) {
        if let page = webView.snapshots[visit.location] {
            guard visit.options.action == .advance else {
                visit.request = Site.later { [weak self, weak visit] in self?.rendered(page, visit) }
                return
            }
            webView.show(page)
            visit.visitable.visitableView.isCovered = false
        }
        visit.request = webView.fetch(visit.location) { [weak self, weak visit] outcome in self?.answered(outcome, visit) }
    }

    /// Session/Session.swift, `resolveRedirect`: a visit of Turbo's without an answer, which redirects nowhere, fails with status 0.
    private func answered(_ outcome: Outcome, _ visit: Visit?) {
        guard let visit else { return }
        switch outcome {
        case .page(let page): rendered(page, visit)
        case .status(let status): failed(pageError(status: status), visit)
        case .failed(let code): failed(visit.isColdBoot ? pageError(code: code) : pageError(status: 0), visit)
        }
    }

    private func rendered(_ page: Page, _ visit: Visit?) {
        guard let visit, visit.state == .started else { return }
        if !visit.isColdBoot, let before = webView.page { webView.snapshots[before.url] = before }
        webView.show(page, isNew: visit.isColdBoot)
        visit.visitable.visitableView.isCovered = false
        visit.visitable.visitableDidRender()
        visit.state = .completed
        if visit.isColdBoot { isInitialized = true }
    }

    /// The delegate is told before the page is covered.
    private func failed(_ error: PageFailure, _ visit: Visit) {
        guard visit.state == .started else { return }
        visit.state = .failed
        delegate?.failed(visit.visitable, error, in: self)
        visit.visitable.visitableView.screenshot = nil
        visit.visitable.visitableView.cover()
    }

    private func activate(_ visitable: any Visitable) {
        guard visitable !== activeVisitable else { return }
        if let active = activeVisitable { deactivate(active, withScreenshot: true) }
        visitable.visitableView.webView = webView
        activeVisitable = visitable
    }

    private func deactivate(_ visitable: any Visitable, withScreenshot: Bool = false) {
        guard visitable === activeVisitable else { return }
        if withScreenshot {
            visitable.visitableView.photograph()
            visitable.visitableView.cover()
        }
        visitable.visitableView.webView = nil
        activeVisitable = nil
    }

    // MARK: Its pages appear and disappear

    func willAppear(_ visitable: any Visitable) {
        defer { previousVisit = nil }
        guard let topmostVisit, let currentVisit else { return }
        if isSnapshotCacheStale {
            clearSnapshotCache()
            isSnapshotCacheStale = false
        }
        if visitable === topmostVisit.visitable, visitable.visitableViewController.isMovingToParent {
            // A swipe back that was let go.
            if topmostVisit.state == .completed { currentVisit.cancel() } else { visit(visitable, action: .advance) }
            return
        }
        if visitable === currentVisit.visitable,
            currentVisit.state == .started || currentVisit.options.response?.page != nil && currentVisit.state == .completed
        {
            self.topmostVisit = currentVisit
        } else if visitable !== topmostVisit.visitable {
            visit(visitable, action: .restore)
        } else if topmostVisitable !== activeVisitable, visitable === previousVisit?.visitable {
            visit(visitable, action: .restore)
        }
    }

    func didAppear(_ visitable: any Visitable) {
        if let currentVisit, visitable === currentVisit.visitable {
            topmostVisit = currentVisit
            if currentVisit.state != .failed { activate(visitable) }
        } else if let topmostVisit, visitable === topmostVisit.visitable, topmostVisit.state == .completed {
            visit(visitable, action: .restore)
        }
    }

    func willDisappear(_ visitable: any Visitable) { previousVisit = topmostVisit }

    func didDisappear(_ visitable: any Visitable) {
        if previousVisit != nil, let page = webView.page { webView.snapshots[page.url] = page }
        deactivate(visitable)
    }

    // MARK: Its page says

    /// A link was tapped, or a form was answered with a redirect.
    public func propose(_ url: URL, _ options: VisitOptions = VisitOptions()) {
        delegate?.proposed(
            VisitProposal(url: url, options: options, properties: Hotwire.config.pathConfiguration.properties(for: url)), in: self
        )
    }

    public func finishFormSubmission() { delegate?.finishedForm(in: self) }
}
