// Hotwire Native's configuration, path rules and bridge, as far as the app uses them, made again from its sources; each rule names
// its file under Source.
public import Foundation
public import UIKit
public import WebKit

public enum Navigation {
    public enum Context: String { case `default`, modal }
    public enum Presentation: String {
        case `default`, replace, pop
        case clearAll = "clear_all"
    }
}

public typealias PathProperties = [String: AnyHashable]

public struct VisitProposal {
    public let url: URL
    public let options: VisitOptions
    public let properties: PathProperties
    public init(url: URL, options: VisitOptions, properties: PathProperties = [:]) {
        (self.url, self.options, self.properties) = (url, options, properties)
    }
    /// Turbo/Navigator/Extensions/PathPropertiesExtensions.swift: a value that isn't known is the default.
    public var context: Navigation.Context { value("context") ?? .default }
    var presentation: Navigation.Presentation { value("presentation") ?? .default }
    var animated: Bool { properties["animated"] as? Bool ?? true }
    private func value<Value: RawRepresentable>(_ key: String) -> Value? where Value.RawValue == String {
        (properties[key] as? String).flatMap { Value(rawValue: $0) }
    }
}

/// Turbo/Path Configuration/PathConfiguration.swift, PathRule.swift: each property is the last matching rule's.
public final class PathConfiguration {
    public enum Source: Equatable {
        case data(Data)
        case file(URL)
        case server(URL)
    }
    public private(set) var settings: [String: AnyHashable] = [:]
    private var rules: [(patterns: [String], properties: PathProperties)] = []

    public func load(_ data: Data) {
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any] else { return }
        settings = hashable(json["settings"] as? [String: Any] ?? [:])
        rules = (json["rules"] as? [[String: Any]] ?? []).map { rule in
            (rule["patterns"] as? [String] ?? [], hashable(rule["properties"] as? [String: Any] ?? [:]))
        }
    }

    public func properties(for url: URL) -> PathProperties {
        let path = url.path + (url.query.map { "?" + $0 } ?? "")
        let matching = rules.filter { $0.patterns.contains { path.range(of: $0, options: .regularExpression) != nil } }
        return matching.reduce(into: [:]) { $0.merge($1.properties) { _, new in new } }
    }

    private func hashable(_ object: [String: Any]) -> [String: AnyHashable] {
        object.compactMapValues { value in
            if let values = value as? [[String: Any]] { return AnyHashable(values.map(hashable)) }
            if let values = value as? [String] { return AnyHashable(values) }
            return value as? AnyHashable
        }
    }
}

@MainActor public enum Hotwire {
    nonisolated(unsafe) public static var config = HotwireConfig()
    public static func registerBridgeComponents(_ types: [BridgeComponent.Type]) {}
    public static func loadPathConfiguration(from sources: [PathConfiguration.Source]) {
        for case .file(let url) in sources {
            if let data = try? Data(contentsOf: url) { config.pathConfiguration.load(data) }
        }
    }
}

public struct HotwireConfig {
    public var applicationUserAgentPrefix: String?
    public var showDoneButtonOnModals = false
    public var backButtonDisplayMode = UINavigationItem.BackButtonDisplayMode.default
    public var debugLoggingEnabled = false
    public var userAgent: String { "\(applicationUserAgentPrefix ?? "") Hotwire Native iOS" }
    public var pathConfiguration = PathConfiguration()
    public var defaultViewController: @MainActor (URL) -> VisitableViewController = { HotwireWebViewController(url: $0) }
    public var makeCustomWebView: @MainActor (WKWebViewConfiguration) -> WKWebView = {
        WKWebView(frame: .zero, configuration: $0)
    }
    @MainActor func makeWebView() -> WKWebView { makeCustomWebView(WKWebViewConfiguration()) }
}

// MARK: - The bridge

public protocol BridgeDestination: AnyObject {}
@MainActor public protocol BridgingDelegate: AnyObject {}

/// Turbo/ViewControllers/HotwireWebViewController.swift.
@MainActor open class HotwireWebViewController: VisitableViewController, BridgeDestination, BridgingDelegate {
    /// For the scenes: a page was rendered, whose scripts run now.
    public static var rendered: (HotwireWebViewController) -> Void = { _ in }
    override public init(url: URL) { super.init(url: url) }
    public required init?(coder: NSCoder) { nil }
    open override func viewWillAppear(_ animated: Bool) { super.viewWillAppear(animated) }
    open override func viewDidAppear(_ animated: Bool) { super.viewDidAppear(animated) }
    open override func viewDidDisappear(_ animated: Bool) { super.viewDidDisappear(animated) }
    open override func visitableDidRender() {
        super.visitableDidRender()
        HotwireWebViewController.rendered(self)
    }
}

public struct Message {
    public let event: String
    private let json: Data
    public init(_ event: String, _ json: Data) { (self.event, self.json) = (event, json) }
    public func data<T: Decodable>() -> T? { try? JSONDecoder().decode(T.self, from: json) }
}

/// Bridge/BridgeComponent.swift.
@MainActor open class BridgeComponent {
    nonisolated open class var name: String { "" }
    public weak var delegate: (any BridgingDelegate)?
    /// The events that were replied to.
    public private(set) static var replies: [String] = []
    public required init(destination: any BridgeDestination, delegate: any BridgingDelegate) { self.delegate = delegate }
    open func onReceive(message: Message) {}
    public func reply<T: Encodable>(to event: String, with data: T) async throws -> Bool {
        BridgeComponent.replies.append(event)
        return true
    }
}
