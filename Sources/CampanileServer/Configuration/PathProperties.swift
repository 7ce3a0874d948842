import CampanileCore
import FoundationEssentials

/// The properties that Hotwire Native itself reads. Others are the app's own, and may be anything.
enum PathProperty {
    private static let presentations = ["default", "pop", "replace", "replace_root", "clear_all", "refresh", "none"]
    private static let words: [String: [String]] = [
        "context": ["default", "modal"],
        "query_string_presentation": ["default", "replace"],
        "modal_style": ["large", "medium", "full", "page_sheet", "form_sheet"],
    ]
    private static let booleans: Set = [
        "pull_to_refresh_enabled", "animated", "historical_location", "modal_dismiss_gesture_enabled",
    ]
    private static let texts: Set = ["view_controller", "uri", "fallback_uri", "title"]

    static func complaint(_ key: String, _ value: Configuration.Value, on platform: DevicePlatform) -> String? {
        if let words = key == "presentation" ? presentations(on: platform) : words[key] {
            guard case .text(let text) = value, words.contains(text) else { return "must be \(words.joined(separator: " or "))" }
        } else if booleans.contains(key) {
            guard case .bool = value else { return "must be true or false" }
        } else if texts.contains(key) {
            guard case .text(let text) = value, !text.isEmpty else { return "must be text" }
        }
        return nil
    }

    /// Android knows one more.
    private static func presentations(on platform: DevicePlatform) -> [String] {
        platform == .android ? presentations + ["push"] : presentations
    }

    /// The conflicts between a rule's properties, or a path's.
    static func complaint(_ properties: [String: Configuration.Value], on platform: DevicePlatform) -> String? {
        guard platform == .android, properties["context"] == .text("modal"),
            properties["presentation"] == .text("replace_root")
        else { return nil }
        return "context: modal with presentation: replace_root, at which Hotwire Native for Android throws"
    }
}

// MARK: - The rules that are made of the tabs and the sign-in pages

extension Configuration.PathConfiguration.Version {
    func madeRules(_ platform: DevicePlatform) -> [Configuration.PathConfiguration.Rule] {
        // On Android every rule names the screen that shows the page.
        let web: [String: Configuration.Value] = platform == .android ? ["uri": .text("hotwire://fragment/web")] : [:]
        var modal = web.merging(["context": .text("modal")]) { $1 }
        // A sign-in that is swiped away by accident leaves blank tabs. Android's library has no such gesture.
        if platform == .ios { modal["modal_dismiss_gesture_enabled"] = .bool(false) }
        let rules = [
            Configuration.PathConfiguration.Rule(
                patterns: tabs.map(\.pattern), properties: web.merging(["presentation": .text("replace")]) { $1 }),
            Configuration.PathConfiguration.Rule(patterns: signIn, properties: modal),
        ]
        return rules.filter { !$0.patterns.isEmpty }
    }

    /// The sign-in pages whose pattern is a path written out, such as `^/session/new`: only of these the properties are known.
    fileprivate var signInPaths: [String] {
        signIn.compactMap { pattern in
            pattern.wholeMatch(of: #/\^(?<path>/[A-Za-z0-9_/-]*)\$?/#).map { String($0.path) }
        }
    }
}

extension Configuration.PathConfiguration.Tab {
    /// The path itself, with any query: patterns are held against both. A site's address without a path is its root
    /// (RFC 3986 section 6.2.3), and apps are often given it so.
    fileprivate var pattern: String {
        if path == "/" { return "^/?(\\?|$)" }
        let escaped = path.map { "\\^$.|?*+()[]{}".contains($0) ? "\\\($0)" : String($0) }.joined()
        return "^\(escaped)(\\?|$)"
    }
}

// MARK: - The inbox's tab

extension Configuration {
    /// The versions whose app has tabs and none for the inbox, by their path in the file: a bell or a push to the inbox
    /// selects no tab there, and no tab shows the number.
    var versionsWithoutInboxTab: [String] {
        let own = apps.sorted { $0.key < $1.key }.map { ("apps.\($0.key).path_configuration", $0.value.pathConfiguration) }
        return ([("path_configuration", pathConfiguration)] + own).flatMap { path, paths in
            [("ios", paths?.ios), ("android", paths?.android)].flatMap { platform, versions in
                (versions ?? [:]).sorted { $0.key < $1.key }
                    .filter { !$0.value.tabs.isEmpty && !$0.value.tabs.contains(where: \.isNotifications) }
                    .map { "\(path).\(platform).\($0.key)" }
            }
        }
    }
}

// MARK: - The properties of a path

extension Configuration.PathConfiguration.Version {
    /// The problems of an app that reads this.
    func complaints(on platform: DevicePlatform) -> [String] {
        let rules = (madeRules(platform) + rules).map { CompiledRule($0, platform) }
        func properties(of path: String) -> [String: Configuration.Value] {
            rules.filter { $0.matches(path) }.reduce(into: [:]) { found, rule in
                found.merge(rule.properties) { $1 }
            }
        }
        let tabPaths = tabs.map(\.path)
        switch platform {
        case .ios:
            // The app pops to the root, which doesn't exist yet, and pushes nothing.
            let blank = tabPaths.first { properties(of: $0)["presentation"] == .text("clear_all") }
            return blank.map { ["the tab \($0) would be clear_all and stay blank: give it another presentation"] } ?? []
        case .android:
            let throwing = (signInPaths + tabPaths).first { PathProperty.complaint(properties(of: $0), on: .android) != nil }
            let complaint = throwing.map {
                "\($0) would be modal and replace_root, at which Hotwire Native for Android throws: give it another presentation"
            }
            return [givesEveryPathAURI ? nil : Self.uriMissing, complaint].compactMap(\.self)
        }
    }

    private static let uriMissing = """
        Android needs an uri for every path: begin with a rule such as \
        { patterns: [".*"], properties: { uri: "hotwire://fragment/web" } }
        """

    /// Hotwire Native for Android shows its default destination for a path whose properties have no `uri`, which is
    /// hardly ever intended. Only a pattern that matches every path proves that every path has one.
    private var givesEveryPathAURI: Bool {
        let everything = #/(\^?/?|\^|\^?/?\.\*|\^?\.\+|\^?\(\.\*\))\$?/#
        return rules.contains { rule in
            rule.properties["uri"] != nil
                && rule.patterns.contains { pattern in
                    pattern.wholeMatch(of: everything) != nil && !["^/$", "/$", "^$"].contains(pattern)
                }
        }
    }
}

/// A rule in the form in which a platform matches paths.
private struct CompiledRule {
    let properties: [String: Configuration.Value]
    private let patterns: [PathPattern]

    init(_ rule: Configuration.PathConfiguration.Rule, _ platform: DevicePlatform) {
        properties = rule.properties
        // Each compiles, because it was read as a pattern.
        patterns = rule.patterns.compactMap { PathPattern($0, ignoresCase: platform == .android) }
    }

    func matches(_ path: String) -> Bool { patterns.contains { $0.matches(path) } }
}

/// The regular expression of a rule, read as the phones' engines read it: ICU on iOS (`NSRegularExpression`), and
/// `java.util.regex` on Android. Both match code points and find words by their characters. Swift's engine stands in for them: theirs needs
/// 32 MiB of data.
struct PathPattern {
    /// Nil for a pattern that looks back, which Swift's engine can't.
    private let regex: Regex<AnyRegexOutput>?

    /// Nil for text that is no regular expression on a phone.
    init?(_ text: String, ignoresCase: Bool = false) {
        guard !text.isEmpty, !Self.isForeign(text) else { return nil }
        if let regex = try? Regex(text) {
            self.regex = regex.matchingSemantics(.unicodeScalar).wordBoundaryKind(.simple).ignoresCase(ignoresCase)
        } else {
            let looksAhead = text.replacing("(?<=", with: "(?=").replacing("(?<!", with: "(?!")
            guard looksAhead != text, (try? Regex(looksAhead)) != nil else { return nil }
            regex = nil
        }
    }

    /// Tells whether it matches anywhere in a path. Of a pattern that looks back nothing is known: it counts as matching none.
    func matches(_ path: String) -> Bool { (try? regex?.firstMatch(in: path)) != nil }

    /// Tells whether a pattern has what Swift's engine takes and the phones' refuse.
    private static func isForeign(_ text: String) -> Bool {
        if text.contains(#/\(\?(?:P|'|\^|[a-z]*[nU])|\\[uk]\{/#) { return true }
        // A brace is a quantifier's, or part of an escape or a class.
        let known = #/\\Q.*?(?:\\E|$)|\\[pPxN]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}/#
        return text.replacing(known, with: "").contains { $0 == "{" || $0 == "}" }
    }
}
