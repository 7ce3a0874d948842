import CampanileCore
import FoundationEssentials

/// A value with its place.
struct FoundSetting<Value> {
    let value: Value
    let origin: ConfigurationProblems.Origin
}

/// A map of settings under one path of the file, overridden by the environment and the flags.
///
/// Each method returns nil both for a missing setting and for one with a problem. Callers needn't distinguish them:
/// with a problem there will be no configuration.
final class ConfigurationSection {
    typealias Origin = ConfigurationProblems.Origin

    let reader: ConfigurationReader
    let path: [String]
    /// The beginning of the section: in the file, or with the first of its settings from elsewhere. Nil if it is
    /// missing.
    private(set) var origin: Origin?
    private let entries: [WrittenValue.Entry]
    let takesEnvironment: Bool
    private var asked: Set<String> = []
    private var missing: [String] = []

    init(
        reader: ConfigurationReader, path: [String], entries: [WrittenValue.Entry], origin: Origin?,
        takesEnvironment: Bool
    ) {
        self.reader = reader
        self.path = path
        self.entries = entries
        self.origin = origin
        self.takesEnvironment = takesEnvironment
    }

    // MARK: - Single values

    /// Reads a setting. Checks every source's value, even an overridden one, which would count once the other is
    /// removed. A setting that `isRequired` must be present if any setting of the section is.
    func value<Value>(
        _ key: String, _ type: SettingType<Value>, flag: WrittenValue? = nil, isRequired: Bool = false
    ) -> FoundSetting<Value>? {
        let sources = sources(of: key, flag: flag)
        if sources.isEmpty, isRequired { missing.append(key) }
        let read = sources.map { scalar($0, type, named: name(key)) }
        return read.first ?? nil
    }

    /// The values of all sources, the effective one first.
    func everyValue<Value>(_ key: String, _ type: SettingType<Value>, flag: WrittenValue?) -> [FoundSetting<Value>] {
        sources(of: key, flag: flag).compactMap { scalar($0, type, named: name(key)) }
    }

    /// Reads a list of single values; outside the file they are separated by commas.
    func list<Value>(_ key: String, _ type: SettingType<Value>) -> FoundSetting<[Value]>? {
        let read = sources(of: key, flag: nil).map { list($0, type, named: name(key)) }
        return read.first ?? nil
    }

    /// Reads one written value as a list.
    func list<Value>(
        _ written: WrittenValue, _ type: SettingType<Value>, named name: String
    ) -> FoundSetting<[Value]>? {
        let elements: [WrittenValue]
        switch written.content {
        case .list(let written):
            elements = written
        case .scalar(let scalar) where scalar.style == .outside:
            let parts = scalar.text.split(separator: ",", omittingEmptySubsequences: false)
            elements =
                scalar.text.isEmpty
                ? []
                : parts.map { part in
                    let text = part.trimmed
                    return WrittenValue(content: .scalar(.init(text: text, style: .outside)), origin: written.origin)
                }
        default:
            reader.report(written.origin, "\(name) must be a list, such as [\"…\"]")
            return nil
        }
        let values = elements.enumerated().map { scalar($1, type, named: "\(name)[\($0)]") }
        let found = values.compactMap { $0?.value }
        return found.count == values.count ? FoundSetting(value: found, origin: written.origin) : nil
    }

    /// Reads one written value as a single one.
    func scalar<Value>(
        _ written: WrittenValue, _ type: SettingType<Value>, named name: String
    ) -> FoundSetting<Value>? {
        guard case .scalar(let scalar) = written.content else {
            reader.report(written.origin, "\(name) must be a single value")
            return nil
        }
        guard !scalar.isNull else {
            reader.report(written.origin, "\(name) has no value; write one or remove the line")
            return nil
        }
        guard !scalar.text.isEmpty else {
            reader.report(written.origin, "\(name) is empty; write a value or remove it")
            return nil
        }
        do {
            return FoundSetting(value: try type.parse(scalar), origin: written.origin)
        } catch {
            reader.report(written.origin, "\(name) \(error.sentence)")
            return nil
        }
    }

    // MARK: - Sections

    /// The section under `key`; an empty one if it is missing.
    func section(_ key: String) -> ConfigurationSection {
        let entry = entry(key)
        let path = path + [key]
        return ConfigurationSection(
            reader: reader, path: path, entries: entry.map { map($0.value, named: name(key)) } ?? [],
            origin: entry?.origin, takesEnvironment: takesEnvironment)
    }

    /// The sections under `key` with names of the user's choice. They come from the file.
    func namedSections(
        _ key: String, _ type: SettingType<String>, called what: String
    ) -> [(String, ConfigurationSection)] {
        if takesEnvironment { reader.know(fileOnly: path + [key]) }
        return entries(key).compactMap { entry in
            guard check(entry, type, named: "the name of \(what) in \(name(key))") else { return nil }
            return (entry.key, section(entry, under: key, takesEnvironment: false))
        }
    }

    /// The section of one entry of the map under `key`.
    func section(_ entry: WrittenValue.Entry, under key: String, takesEnvironment: Bool) -> ConfigurationSection {
        let path = path + [key, entry.key]
        return ConfigurationSection(
            reader: reader, path: path, entries: map(entry.value, named: path.joined(separator: ".")),
            origin: entry.origin, takesEnvironment: takesEnvironment)
    }

    /// The entries of the map under `key`.
    func entries(_ key: String) -> [WrittenValue.Entry] {
        entry(key).map { map($0.value, named: name(key)) } ?? []
    }

    /// Checks the name of an entry.
    func check(_ entry: WrittenValue.Entry, _ type: SettingType<String>, named name: String) -> Bool {
        let scalar = WrittenValue.Scalar(text: entry.key, style: .quoted)
        return self.scalar(WrittenValue(content: .scalar(scalar), origin: entry.origin), type, named: name) != nil
    }

    /// The file's value under `key`.
    func entry(_ key: String) -> WrittenValue.Entry? {
        asked.insert(key)
        reader.know(path + [key])
        return entries.first { $0.key == key }
    }

    /// Returns whether `key` has a value: a name without one, above lines that are commented out, doesn't.
    func isWritten(_ key: String) -> Bool {
        entry(key).map { !$0.value.isNull } ?? false
    }

    /// Reports the missing settings here, and those that were written and never read. Call it last.
    /// - Parameter needsAll: false if the required ones may be missing together.
    func close(needsAll: Bool = true) {
        if let origin, needsAll {
            for key in missing { reader.reportMissing(origin, "\(name(key)) is missing") }
        }
        for entry in entries where !asked.contains(entry.key) {
            reader.reportUnknown(path + [entry.key], origin: entry.origin)
        }
    }

    /// The path of a setting here, for messages.
    func name(_ key: String) -> String {
        (path + [key]).joined(separator: ".")
    }

    // MARK: -

    /// The values for `key`, the effective one first.
    private func sources(of key: String, flag: WrittenValue?) -> [WrittenValue] {
        let variable = takesEnvironment ? reader.variable(path + [key]) : nil
        // The line of a setting is its name's, even if the value begins on the next.
        let file = entry(key).map { WrittenValue(content: $0.value.content, origin: $0.origin) }
        let sources = [flag, variable, file].compactMap(\.self)
        origin = origin ?? sources.first?.origin
        return sources
    }

    /// A map with everything commented out is an empty one.
    private func map(_ written: WrittenValue, named name: String) -> [WrittenValue.Entry] {
        if case .map(let entries) = written.content { return entries }
        if !written.isNull { reader.report(written.origin, "\(name) must be a map of settings") }
        return []
    }
}
