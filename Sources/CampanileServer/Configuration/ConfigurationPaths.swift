import CampanileCore
import FoundationEssentials

// The path configurations of Hotwire Native apps.

extension Configuration.PathConfiguration {
    init(_ section: ConfigurationSection) {
        self.init()
        section.reader.know(fileOnly: section.path)
        let signIn = section.signInPatterns() ?? Self.standardSignIn
        ios = Self.versions(in: section, under: .ios, signIn)
        android = Self.versions(in: section, under: .android, signIn)
        section.close()
    }

    private static func versions(
        in section: ConfigurationSection, under platform: DevicePlatform, _ signIn: [String]
    ) -> [String: Version] {
        var versions: [String: Version] = [:]
        for (name, below) in section.namedSections(platform.rawValue, .versionName, called: "a version") {
            below.refuseSignInSetting()
            let version = Version(
                settings: below.object("settings", except: "tabs"), tabs: below.tabs(), signIn: signIn,
                rules: below.rules("rules", platform))
            // Unreadable rules get no further problems.
            let isWhole = version.rules.count == below.written("rules")
            if isWhole { for complaint in version.complaints(on: platform) { below.complain(complaint) } }
            below.close()
            versions[name] = version
        }
        return versions
    }
}

extension ConfigurationSection {
    /// A map with free keys and values, except for one key.
    fileprivate func object(_ key: String, except known: String? = nil) -> [String: Configuration.Value] {
        let members = entries(key).filter { $0.key != known }.map { entry in
            (entry.key, value(entry.value, named: "\(name(key)).\(entry.key)"))
        }
        return Dictionary(members) { first, _ in first }
    }

    /// `sign_in`: nil if it is missing or has a problem; empty if the app has no sign-in page.
    fileprivate func signInPatterns() -> [String]? {
        guard let entry = entry("sign_in") else { return nil }
        let written = WrittenValue(content: entry.value.content, origin: entry.origin)
        return list(written, .pattern, named: name("sign_in"))?.value
    }

    /// The server writes `settings.sign_in`: one of the file's own would say something else than the rules do.
    fileprivate func refuseSignInSetting() {
        guard let entry = entries("settings").first(where: { $0.key == "sign_in" }) else { return }
        reader.report(
            entry.origin, "\(name("settings")).sign_in is made from path_configuration.sign_in: set the patterns there")
    }

    /// `settings.tabs`, from which the server makes rules.
    fileprivate func tabs() -> [Configuration.PathConfiguration.Tab] {
        guard let entry = entries("settings").first(where: { $0.key == "tabs" }) else { return [] }
        let name = "\(name("settings")).tabs"
        guard case .list(let elements) = entry.value.content else {
            reader.report(entry.origin, "\(name) must be a list of tabs")
            return []
        }
        let limit = ConfigurationLimits.pathTabs
        if elements.count > limit { reader.report(entry.origin, "\(name) must hold at most \(limit) tabs") }
        var places: [String: Int] = [:]
        let tabs = elements.enumerated().compactMap { index, element in
            let tab = tab(element, path: path + ["settings", "tabs[\(index)]"])
            if let tab, let other = places[tab.path] {
                let wrong = "is that of tabs[\(other)] already: each tab must have its own path"
                reader.report(element.origin, "\(name)[\(index)].path \(wrong)")
            } else if let tab {
                places[tab.path] = index
            }
            return tab
        }
        if tabs.count(where: \.isNotifications) > 1 {
            reader.report(entry.origin, "\(name) must have one tab with notifications: true at most")
        }
        return tabs
    }

    private func tab(_ written: WrittenValue, path: [String]) -> Configuration.PathConfiguration.Tab? {
        let name = path.joined(separator: ".")
        guard let section = inner(written, path: path, with: "path and title or icon") else { return nil }
        let (title, icon) = (section.value("title", .text)?.value, section.value("icon", .text)?.value)
        let selectedIcon = section.value("selected_icon", .text)?.value
        let tabPath = section.value("path", .tabPath, isRequired: true)?.value
        let isNotifications = section.value("notifications", .boolean)?.value ?? false
        if section.entry("title") == nil, section.entry("icon") == nil {
            reader.report(written.origin, "\(name) must have a title, an icon or both")
        }
        section.close()
        return tabPath.map {
            .init(title: title, icon: icon, selectedIcon: selectedIcon, path: $0, isNotifications: isNotifications)
        }
    }

    /// The number of elements of a list as written.
    fileprivate func written(_ key: String) -> Int {
        guard case .list(let elements)? = entry(key)?.value.content else { return 0 }
        return elements.count
    }

    fileprivate func rules(_ key: String, _ platform: DevicePlatform) -> [Configuration.PathConfiguration.Rule] {
        guard let entry = entry(key) else { return [] }
        guard case .list(let elements) = entry.value.content else {
            reader.report(entry.origin, "\(name(key)) must be a list of rules")
            return []
        }
        let limit = ConfigurationLimits.pathRules
        if elements.count > limit { reader.report(entry.origin, "\(name(key)) must hold at most \(limit) rules") }
        return elements.enumerated().compactMap { index, element in
            rule(element, platform, path: path + ["\(key)[\(index)]"])
        }
    }

    private func rule(
        _ written: WrittenValue, _ platform: DevicePlatform, path: [String]
    ) -> Configuration.PathConfiguration.Rule? {
        let name = path.joined(separator: ".")
        guard let section = inner(written, path: path, with: "patterns and properties") else { return nil }
        let patterns = section.list("patterns", .pattern)
        if section.entry("patterns") == nil || patterns?.value.isEmpty == true {
            reader.report(written.origin, "\(name) must have at least one of patterns")
        }
        let properties = section.object("properties")
        if let entry = section.entry("properties") {
            for (key, value) in properties.sorted(by: { $0.key < $1.key }) {
                guard let complaint = PathProperty.complaint(key, value, on: platform) else { continue }
                reader.report(entry.origin, "\(name).properties.\(key) \(complaint)")
            }
        } else {
            reader.report(written.origin, "\(name) must have properties")
        }
        section.close()
        if let complaint = PathProperty.complaint(properties, on: platform) {
            reader.report(section.entry("properties")?.origin ?? written.origin, "\(name).properties has \(complaint)")
            return nil
        }
        return patterns.map { Configuration.PathConfiguration.Rule(patterns: $0.value, properties: properties) }
    }

    /// An element of a list that is a map.
    private func inner(_ written: WrittenValue, path: [String], with keys: String) -> ConfigurationSection? {
        guard case .map(let entries) = written.content else {
            reader.report(written.origin, "\(path.joined(separator: ".")) must be a map with \(keys)")
            return nil
        }
        return ConfigurationSection(
            reader: reader, path: path, entries: entries, origin: written.origin, takesEnvironment: false)
    }

    private func value(_ written: WrittenValue, named name: String) -> Configuration.Value {
        switch written.content {
        case .list(let elements):
            return .list(elements.enumerated().map { value($1, named: "\(name)[\($0)]") })
        case .map(let entries):
            let members = entries.map { ($0.key, value($0.value, named: "\(name).\($0.key)")) }
            return .object(Dictionary(members) { first, _ in first })
        case .scalar(let scalar):
            do {
                return try Configuration.Value(scalar)
            } catch {
                reader.report(written.origin, "\(name) \(error.sentence)")
                return .null
            }
        }
    }
}

extension Configuration.Value {
    /// Reads a scalar as YAML 1.2's core schema does (section 10.3.2). Refuses a value that other YAML readers
    /// interpret differently, or that JSON can't express.
    fileprivate init(_ scalar: WrittenValue.Scalar) throws(Mistake) {
        let text = scalar.text
        if scalar.style != .plain {
            self = .text(text)
        } else if scalar.isNull {
            self = .null
        } else if isYAMLBoolean(text) {
            self = .bool(text.lowercased() == "true")
        } else if text.wholeMatch(of: #/[-+]?(0|[1-9][0-9]*)/#) != nil {
            guard let number = Int(text) else {
                throw Mistake("must be a number of at most 64 bits, or text in quotes")
            }
            self = .integer(number)
        } else if text.wholeMatch(of: #/[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?/#) != nil {
            guard let number = Double(text), number.isFinite else {
                throw Mistake("must be a number that JSON and a double can hold, or text in quotes")
            }
            self = .number(number)
        } else if Self.isAmbiguous(text) {
            throw Mistake(
                "is a boolean or a number to some readers of YAML: write true, false or digits, or put it in quotes")
        } else {
            self = .text(text)
        }
    }

    /// Words that YAML 1.1 takes for booleans, and notations of numbers that differ between YAML 1.1 and 1.2.
    private static func isAmbiguous(_ text: String) -> Bool {
        let number = #/[-+]?(0[xob][0-9a-f_]+|[0-9][0-9_]*|\.(inf|nan))/#.ignoresCase()
        return ["yes", "no", "on", "off"].contains(text.lowercased()) || text.wholeMatch(of: number) != nil
    }
}

extension SettingType where Value == String {
    /// The version in the file name that an app fetches, such as `ios_v1.json`.
    fileprivate static var versionName: Self {
        refined { name in
            let isName = name.wholeMatch(of: #/v[1-9][0-9]*/#) != nil
            return isName ? nil : "must be v1, v2 and so on, and is \(quotedForMessage(name))"
        }
    }

    /// The address of a tab's first page on the app's own host.
    fileprivate static var tabPath: Self {
        refined { text in
            guard text.utf8.first == UInt8(ascii: "/"), !text.utf8.contains(where: { "?#".utf8.contains($0) }) else {
                return "must be a path that begins with / and has no query, and is \(quotedForMessage(text))"
            }
            do throws(DeepLink.Mistake) {
                _ = try DeepLink(text)
                return nil
            } catch {
                return String(error.sentence.dropLast())
            }
        }
    }
}
