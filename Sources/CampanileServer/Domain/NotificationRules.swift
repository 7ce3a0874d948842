package import CampanileCore

/// The rules for the notifications of one app, when they are created and when they are pushed, beside the limits that all have.
package struct NotificationRules: Sendable {
    /// The app's screens. Empty: any well-formed deep link passes.
    let deepLinks: DeepLinkTree
    /// The defaults that a category gives to its notifications.
    let categories: [ExactText: NotificationCategory]
    /// True if a category that isn't declared is refused.
    let categoriesOnly: Bool
    /// True if alerts to iOS carry `mutable-content`.
    let mutableContent: Bool

    package init(
        deepLinks: DeepLinkTree = DeepLinkTree(), categories: [ExactText: NotificationCategory] = [:],
        categoriesOnly: Bool = false, mutableContent: Bool = false
    ) {
        self.deepLinks = deepLinks
        self.categories = categories
        self.categoriesOnly = categoriesOnly
        self.mutableContent = mutableContent
    }

    /// Says why a deep link can't be taken: the codes, and sentences that begin with the field.
    func mistakes(inDeepLink text: String) -> [(code: FieldError.Code, sentence: String)] {
        let link: DeepLink
        do throws(DeepLink.Mistake) {
            link = try DeepLink(text)
        } catch {
            return [(.invalid, "deep_link \(error.sentence)")]
        }
        guard !deepLinks.nodes.isEmpty else { return [] }
        do throws(DeepLinkTree.Mistake) {
            _ = try deepLinks.resolve(link)
            return []
        } catch {
            let code: FieldError.Code = if case .query = error { .deepLinkQuery } else { .unknownDeepLink }
            return error.sentences.map { (code, "deep_link \($0)") }
        }
    }

    /// The declaration of a category, if there is one.
    func category(_ name: String?) -> NotificationCategory? { name.flatMap { categories[ExactText($0)] } }

    /// Says why a category can't be taken; nil when it can.
    func mistake(inCategory name: String) -> String? {
        guard categoriesOnly, categories[ExactText(name)] == nil else { return nil }
        let names = categories.keys.map(\.text)
        guard !names.isEmpty else { return "category must be a declared one, and none is." }
        guard let nearest = nearestNames(to: name, among: names).first else {
            return "category must be a declared one: \(fewNames(names.sorted()))."
        }
        let lookalike = lookalikeSentence(given: name, declared: nearest).map { " \($0)" } ?? ""
        return "category must be a declared one; did you mean \(nearest)?\(lookalike)"
    }
}

/// The defaults that a category gives to its notifications.
package struct NotificationCategory: Sendable, Equatable {
    /// The sound of a push: `default` or the name of a file in the app.
    package var sound: String?
    /// Seconds from a notification's creation until which its pushes may go.
    package var lifetimeSeconds: Int64?
    /// The meaning of a swipe that dismisses one of its alerts.
    package var dismiss: Dismissal
    /// The fields of its pushes' payload, such as the interruption level on iOS and the channel on Android.
    package var fields: PayloadFields

    package init(
        sound: String? = nil, lifetimeSeconds: Int64? = nil, dismiss: Dismissal = .nothing,
        fields: PayloadFields = PayloadFields()
    ) {
        self.sound = sound
        self.lifetimeSeconds = lifetimeSeconds
        self.dismiss = dismiss
        self.fields = fields
    }

    /// The meaning of a swipe.
    package enum Dismissal: String, CaseIterable, Sendable {
        /// None: the notification stays unread.
        case nothing
        /// The user has read the notification: the app tells the server so.
        case read
    }
}

/// The rules for one notification's pushes, looked up once for all of its devices.
struct PushTerms: Sendable {
    /// The declaration of its category, if there is one.
    let category: NotificationCategory?
    /// The versions that the screens of its deep link ask for, the deepest first.
    fileprivate let requirements: [DeepLinkTree.MinimumVersion]

    /// The treatment of the push to an app that is too old for a screen of the deep link; nil when the app has all of
    /// them.
    func shortfall(platform: DevicePlatform, appVersion: String?) -> DeepLinkTree.MinimumVersion.Otherwise? {
        requirements.first { !$0.isMet(by: appVersion, on: platform) }?.otherwise
    }
}

extension NotificationRules {
    /// To be asked when pushes are to go, because an app may be renewed while one waits. The tree may be another by then
    /// than when the link was taken: as much as it knows of the link counts.
    func terms(of content: NotificationContent) -> PushTerms {
        PushTerms(category: category(content.category), requirements: requirements(of: content.deepLink))
    }

    private func requirements(of link: String?) -> [DeepLinkTree.MinimumVersion] {
        guard deepLinks.requiresVersions, let link, let parsed = try? DeepLink(link) else { return [] }
        return deepLinks.knownPart(of: parsed).requirements
    }
}

/// Something of every app: made once for each that the configuration names, and once for all others.
package struct PerApp<Value: Sendable>: Sendable {
    /// The values of the apps that the configuration names.
    let named: [String: Value]
    let others: Value

    /// - Parameters:
    ///   - names: of the apps that the configuration names.
    ///   - make: gets the name of an app; an empty one, which no app has, stands for the others.
    init(_ names: some Sequence<String>, _ make: (String) -> Value) {
        named = Dictionary(uniqueKeysWithValues: names.map { ($0, make($0)) })
        others = make("")
    }

    /// Gives every app the same value.
    package init(all value: Value) {
        named = [:]
        others = value
    }

    subscript(app: String) -> Value { named[app] ?? others }
}

// MARK: - For people

extension NotificationRules {
    /// Says why a deep link is refused; empty when it isn't.
    package func sentences(aboutDeepLink text: String) -> [String] { mistakes(inDeepLink: text).map(\.sentence) }

    /// The screens that a deep link names, parents first and a line each, and the values it carries.
    package func chain(ofDeepLink text: String) -> [String] {
        guard let link = try? DeepLink(text), let match = try? deepLinks.resolve(link) else {
            return ["No screens are declared: every well-formed link passes."]
        }
        let screens = match.steps.map { step in
            let meaning = step.node.parameter.map { "\($0) is \(quotedInSentence(step.segment))" } ?? step.segment
            return [meaning, step.node.title, step.node.minimumVersion?.text].compactMap(\.self).joined(separator: "\t")
        }
        let values = match.query.map { "\($0.key) is \($0.value.text)" }
        return screens + values.sorted()
    }

    /// All screens as a table in Markdown.
    package var table: [String] {
        let head = ["| link | title | query | web | from version |", "|---|---|---|---|---|"]
        func rows(_ nodes: [DeepLinkTree.Node], _ prefix: String) -> [String] {
            nodes.flatMap { node in
                [row(node, prefix + node.segment)] + rows(node.children, prefix + node.segment + "/")
            }
        }
        return head + rows(deepLinks.nodes, "")
    }

    private func row(_ node: DeepLinkTree.Node, _ path: String) -> String {
        let query = node.query.map { "`\($0.key)`: \($0.kind.rawValue)\($0.isRequired ? ", required" : "")" }
        let cells = [
            "`\(path)`", node.title ?? "", query.joined(separator: "; "), node.web.map { "`\($0)`" } ?? "",
            node.minimumVersion?.text ?? "",
        ]
        // A line break would end the table, and a bar the cell.
        let lines = cells.map { $0.split(whereSeparator: \.isNewline).joined(separator: " ").replacing("|", with: "\\|") }
        return "| " + lines.joined(separator: " | ") + " |"
    }
}

extension DeepLinkTree.MinimumVersion {
    fileprivate var text: String {
        let platforms = [("iOS", ios), ("Android", android)].compactMap { name, version in
            version.map { "\(name) \($0.text)" }
        }
        return "\(platforms.joined(separator: ", ")); older: \(otherwise.rawValue)"
    }
}

extension DeepLinkTree.Value {
    fileprivate var text: String {
        switch self {
        case .string(let text): quotedInSentence(text)
        case .integer(let number): String(number)
        case .boolean(let value): String(value)
        }
    }
}
