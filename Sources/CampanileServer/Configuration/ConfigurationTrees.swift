import Foundation

// The sections whose shape is the user's choice: the deep-link tree and the path configurations.

extension Configuration.Screen {
    /// The screens under `key`, with everything below them.
    static func tree(in section: ConfigurationSection, under key: String) -> [String: Configuration.Screen] {
        var screens: [String: Configuration.Screen] = [:]
        for (name, below) in section.namedSections(key, .pathSegment, called: "a screen") {
            screens[name] = Configuration.Screen(
                title: below.value("title", .text)?.value, children: tree(in: below, under: "children"))
            below.close()
        }
        return screens
    }
}

extension Configuration.PathConfiguration {
    init(_ section: ConfigurationSection) {
        self.init()
        section.reader.know(fileOnly: section.path)
        ios = Self.versions(in: section, under: "ios")
        android = Self.versions(in: section, under: "android")
        section.close()
    }

    private static func versions(in section: ConfigurationSection, under platform: String) -> [String: Version] {
        var versions: [String: Version] = [:]
        for (name, below) in section.namedSections(platform, .versionName, called: "a version") {
            versions[name] = Version(
                settings: below.object("settings"), rules: below.rules("rules"))
            below.close()
        }
        return versions
    }
}

extension ConfigurationSection {
    /// A map whose keys and values are free.
    fileprivate func object(_ key: String) -> [String: Configuration.Value] {
        let members = entries(key).map { ($0.key, value($0.value, named: "\(name(key)).\($0.key)")) }
        return Dictionary(members) { first, _ in first }
    }

    fileprivate func rules(_ key: String) -> [Configuration.PathConfiguration.Rule] {
        guard let entry = entry(key) else { return [] }
        guard case .list(let elements) = entry.value.content else {
            reader.report(entry.origin, "\(name(key)) must be a list of rules")
            return []
        }
        return elements.enumerated().compactMap { index, element in
            rule(element, path: path + ["\(key)[\(index)]"])
        }
    }

    private func rule(_ written: WrittenValue, path: [String]) -> Configuration.PathConfiguration.Rule? {
        let name = path.joined(separator: ".")
        guard case .map(let entries) = written.content else {
            reader.report(written.origin, "\(name) must be a map with patterns and properties")
            return nil
        }
        let section = ConfigurationSection(
            reader: reader, path: path, entries: entries, origin: written.origin, takesEnvironment: false)
        let patterns = section.list("patterns", .pattern)
        if section.entry("patterns") == nil || patterns?.value.isEmpty == true {
            reader.report(written.origin, "\(name) must have at least one of patterns")
        }
        let properties = section.object("properties")
        if section.entry("properties") == nil {
            reader.report(written.origin, "\(name) must have properties")
        }
        section.close()
        return patterns.map { Configuration.PathConfiguration.Rule(patterns: $0.value, properties: properties) }
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
                reader.report(written.origin, "\(name) \(error.text)")
                return .null
            }
        }
    }
}

extension Configuration.Value {
    /// Reads a scalar as YAML 1.2's core schema does (section 10.3.2). What other readers of YAML take for something
    /// else, or JSON can't say, is refused rather than guessed.
    fileprivate init(_ scalar: WrittenValue.Scalar) throws(SettingComplaint) {
        let text = scalar.text
        if scalar.style != .plain {
            self = .text(text)
        } else if scalar.isNull {
            self = .null
        } else if isYAMLBoolean(text) {
            self = .bool(text.lowercased() == "true")
        } else if text.wholeMatch(of: #/[-+]?(0|[1-9][0-9]*)/#) != nil {
            guard let number = Int(text) else {
                throw SettingComplaint("must be a number of at most 64 bits, or text in quotes")
            }
            self = .integer(number)
        } else if text.wholeMatch(of: #/[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?/#) != nil {
            guard let number = Double(text), number.isFinite else {
                throw SettingComplaint("must be a number that JSON and a double can hold, or text in quotes")
            }
            self = .number(number)
        } else if Self.isAmbiguous(text) {
            throw SettingComplaint(
                "is a boolean or a number to some readers of YAML: write true, false or digits, or put it in quotes")
        } else {
            self = .text(text)
        }
    }

    /// Words that YAML 1.1 takes for booleans, and notations of numbers that YAML 1.1 and 1.2 disagree about.
    private static func isAmbiguous(_ text: String) -> Bool {
        let number = #/[-+]?(0[xob][0-9a-f_]+|[0-9][0-9_]*|\.(inf|nan))/#.ignoresCase()
        return ["yes", "no", "on", "off"].contains(text.lowercased()) || text.wholeMatch(of: number) != nil
    }
}

extension SettingType where Value == String {
    /// One segment of a deep link's path.
    fileprivate static var pathSegment: Self {
        refined { name in
            let isSegment = name.wholeMatch(of: #/[A-Za-z0-9._~\-]+/#) != nil && name != "." && name != ".."
            return isSegment
                ? nil : "must be one segment of a path (letters, digits and . _ ~ -), and is \(quotedForMessage(name))"
        }
    }

    /// What stands in the file name that an app fetches, such as `ios_v1.json`.
    fileprivate static var versionName: Self {
        refined { name in
            let isName = name.wholeMatch(of: #/[A-Za-z0-9][A-Za-z0-9_\-]*/#) != nil
            return isName ? nil : "must be letters, digits and _ -, such as v1, and is \(quotedForMessage(name))"
        }
    }
}
