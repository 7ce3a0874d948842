// The module WebKit: web views whose pages come from a site of the test, and Turbo's cache of pages, which goes with the view.
@_exported public import UIKit

/// A page in a web view, as the site made it for whoever was signed in then.
public struct Page: Equatable, Sendable {
    public let url: URL
    public let user: String?
    /// The site counts its answers.
    public let number: Int
}

public enum Outcome {
    case page(Page)
    case status(Int)
    /// The system's error, such as -999.
    case failed(Int)
}

/// The web site. What is asked of it is answered when the scene says `deliver()`.
@MainActor
public enum Site {
    /// The user of the session that the app's cookie names; all web views share it.
    public static var user: String?
    /// The end of a request, where it isn't a page.
    public static var outcome: (URL) -> Outcome? = { _ in nil }
    /// The paths asked for, the oldest first.
    public static var asked: [String] = []
    private static var waiting: [Request] = []
    private static var answers = 0

    @MainActor
    public final class Request {
        public let url: URL
        private let done: (Outcome) -> Void
        public var isCalledOff = false
        init(_ url: URL, _ done: @escaping (Outcome) -> Void) { (self.url, self.done) = (url, done) }
        fileprivate func answer() {
            guard !isCalledOff else { return }
            done(url.isFileURL ? .status(0) : Site.outcome(url) ?? .page(Site.page(url)))
        }
    }

    public static func page(_ url: URL) -> Page {
        answers += 1
        return Page(url: url, user: user, number: answers)
    }

    static func ask(_ url: URL, _ done: @escaping (Outcome) -> Void) -> Request {
        asked.append(url.path)
        let request = Request(url, done)
        waiting.append(request)
        return request
    }

    /// Work that a web view does without the network, in its own process.
    public static func later(_ done: @escaping () -> Void) -> Request {
        let request = Request(URL(fileURLWithPath: "/")) { _ in done() }
        waiting.append(request)
        return request
    }

    /// Answers what was asked until now, except what is held. Returns whether there was anything.
    @discardableResult
    public static func deliver(holding held: (URL) -> Bool = { _ in false }) -> Bool {
        let requests = waiting.filter { !held($0.url) }
        waiting.removeAll { !held($0.url) }
        for request in requests { request.answer() }
        return requests.contains { !$0.isCalledOff }
    }
}

@MainActor open class WKWebViewConfiguration: NSObject {
    nonisolated override public init() { super.init() }
    open var userContentController = WKUserContentController()
}

@MainActor open class WKUserContentController: NSObject {
    nonisolated override public init() { super.init() }
    private var handlers: [String: any WKScriptMessageHandler] = [:]
    open func add(_ handler: any WKScriptMessageHandler, name: String) { handlers[name] = handler }
    /// A page's `webkit.messageHandlers.NAME.postMessage(body)`.
    /// Returns whether the app receives it.
    public func post(_ body: Any, to name: String) -> Bool {
        handlers[name]?.userContentController(self, didReceive: WKScriptMessage(name: name, body: body)) != nil
    }
}

@MainActor open class WKScriptMessage: NSObject {
    public let name: String
    public let body: Any
    init(name: String, body: Any) { (self.name, self.body) = (name, body) }
}

@MainActor public protocol WKScriptMessageHandler: NSObjectProtocol {
    func userContentController(_ userContentController: WKUserContentController, didReceive message: WKScriptMessage)
}

@MainActor open class WKWebView: UIView {
    public let configuration: WKWebViewConfiguration
    public init(frame: CGRect, configuration: WKWebViewConfiguration) {
        self.configuration = configuration
        super.init(frame: frame)
    }
    public required init?(coder: NSCoder) { nil }
    open var isInspectable = false
    public var page: Page?
    /// Turbo's, by address.
    public var snapshots: [URL: Page] = [:]

    /// A new document: what the one before had in its cache has gone.
    public func load(_ url: URL, _ done: @escaping (Outcome) -> Void) -> Site.Request {
        Site.ask(url) { [weak self] outcome in
            if case .page(let page) = outcome { self?.show(page, isNew: true) }
            done(outcome)
        }
    }

    public func show(_ page: Page, isNew: Bool = false) {
        if isNew { snapshots = [:] }
        self.page = page
    }

    public func fetch(_ url: URL, _ done: @escaping (Outcome) -> Void) -> Site.Request { Site.ask(url, done) }
}
