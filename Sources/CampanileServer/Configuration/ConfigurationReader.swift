import CampanileCore
import FoundationEssentials

/// The state of one reading of a configuration: the sources, the problems, and the settings read so far.
///
/// Only the code that reads a setting names it. A source's setting that was never read is unknown, and "did you mean"
/// chooses from the settings that were.
final class ConfigurationReader {
    typealias Origin = ConfigurationProblems.Origin

    private let document: ConfigurationDocument
    private let environment: [String: String]
    private var problems: [ConfigurationProblems.Problem]
    /// The path of every setting read.
    private(set) var knownSettings: Set<[String]> = []
    /// Every environment variable read.
    private var knownVariables: Set<String> = []
    /// The paths of maps that only the file can set.
    private var fileOnly: [[String]] = []
    private var unknownSettings: [(path: [String], origin: Origin)] = []
    /// The variables that are neither settings nor mistakes. The unknown ones are found at the end.
    private(set) var passedOver = Configuration.PassedOver()

    private static let variablePrefix = "CAMPANILE_"
    /// The variables of programs that call the server: of docs/integration.md, and of clients/ruby.
    private static let clientVariables: Set<String> = [
        "CAMPANILE_URL", "CAMPANILE_PUBLIC_URL", "CAMPANILE_APP", "CAMPANILE_KEY", "CAMPANILE_KEY_FILE",
        "CAMPANILE_BROADCAST_KEY",
        "CAMPANILE_BROADCAST_KEY_FILE",
    ]

    init(document: ConfigurationDocument, environment: [String: String]) {
        self.document = document
        let ours = environment.filter {
            $0.key.hasPrefix(Self.variablePrefix) && !Self.clientVariables.contains($0.key)
        }
        self.environment = ours.filter { !isServiceLink($0.key, $0.value) }
        problems = document.problems
        passedOver.serviceLinks = ours.filter { isServiceLink($0.key, $0.value) }.keys.sorted()
    }

    /// The whole configuration.
    var root: ConfigurationSection {
        ConfigurationSection(
            reader: self, path: [], entries: document.entries, origin: nil, takesEnvironment: true)
    }

    func report(_ origin: Origin, _ message: String) {
        let problem = ConfigurationProblems.Problem(origin: origin, message: message)
        if !problems.contains(problem) { problems.append(problem) }
    }

    /// Reports a missing setting, unless it may be in a part of the file that couldn't be understood.
    func reportMissing(_ origin: Origin, _ message: String) {
        if document.isWhole { report(origin, message) }
    }

    func know(_ path: [String]) {
        knownSettings.insert(path)
    }

    /// Notes that no setting below `path` can come from the environment.
    func know(fileOnly path: [String]) {
        fileOnly.append(path)
    }

    func reportUnknown(_ path: [String], origin: Origin) {
        unknownSettings.append((path, origin))
    }

    /// The environment's value for a setting, if it has one.
    func variable(_ path: [String]) -> WrittenValue? {
        let name = environmentName(path)
        knownVariables.insert(name)
        return environment[name].map {
            WrittenValue(content: .scalar(.init(text: $0, style: .outside)), origin: .environment(name))
        }
    }

    /// All problems, including settings that were written and never read.
    func finish() -> [ConfigurationProblems.Problem] {
        for unknown in unknownSettings { report(unknown.origin, sentence(unknown.path)) }
        for name in environment.keys.sorted() where !knownVariables.contains(name) {
            if let sentence = sentence(variable: name) {
                report(.environment(name), sentence)
            } else {
                passedOver.unknown.append(name)
            }
        }
        return problems
    }

    private func sentence(_ path: [String]) -> String {
        let key = path.last ?? ""
        let place = path.count > 1 ? " in \(path.dropLast().joined(separator: "."))" : ""
        let siblings = knownSettings.filter { $0.dropLast() == path.dropLast() }.compactMap(\.last)
        // A name from elsewhere was hardly meant in an element of a list.
        let isElement = path.contains { $0.hasSuffix("]") }
        let namesakes = isElement ? [] : knownSettings.filter { $0.last == key }
        // The top level has most settings that an app may have of its own, so the shallowest one was meant.
        let depth = namesakes.map(\.count).min()
        let elsewhere = namesakes.filter { $0.count == depth }.map { known in
            known.count == 1 ? "\(key) at the top level" : known.joined(separator: ".")
        }
        let meant = nearestNames(to: key, among: siblings).first ?? (elsewhere.count == 1 ? elsewhere.first : nil)
        return "there is no setting \(quotedForMessage(key))\(place)\(meant.map { "; did you mean \($0)?" } ?? "")"
    }

    /// Says why an unread variable is a mistake; nil if it may be another program's.
    private func sentence(variable name: String) -> String? {
        let no = "there is no such setting"
        // Without the prefix, which would make all short names look alike.
        let own = { (name: String) in String(name.dropFirst(Self.variablePrefix.count)) }
        if let meant = nearestNames(to: own(name), among: knownVariables.map(own)).first {
            return "\(no); did you mean \(Self.variablePrefix)\(meant)?"
        }
        let map = fileOnly.first { name == environmentName($0) || name.hasPrefix(environmentName($0) + "_") }
        if let map {
            return "\(map.joined(separator: ".")) can be set in the file only"
        }
        if name.hasPrefix(environmentName(["apps"]) + "_") {
            return "\(no); apps get their names in the file, and only the app default needs no entry there"
        }
        return nil
    }
}
