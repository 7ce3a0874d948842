import CampanileCore
import Foundation

/// What one run of reading a configuration knows and has found out: the sources, the problems, and which settings
/// were asked for.
///
/// The code that asks for a setting is the only place that names it. What is in a source and was never asked for is
/// unknown, and what was asked for is what "did you mean" chooses from.
final class ConfigurationReader {
    typealias Origin = ConfigurationProblems.Origin

    private let document: ConfigurationDocument
    private let environment: [String: String]
    private var problems: [ConfigurationProblems.Problem]
    /// The path of every setting that was asked for.
    private(set) var knownSettings: Set<[String]> = []
    /// Every environment variable that was asked for.
    private var knownVariables: Set<String> = []
    /// The paths of maps that only the file can set.
    private var fileOnly: [[String]] = []
    private var unknownSettings: [(path: [String], origin: Origin)] = []
    /// The variables that are no settings and no mistakes. The unknown ones are found at the end.
    private(set) var passedOver = Configuration.PassedOver()

    private static let variablePrefix = "CAMPANILE_"
    /// What docs/integration.md calls the variables of a program that calls the server.
    private static let clientVariables: Set<String> = ["CAMPANILE_URL", "CAMPANILE_KEY"]

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

    /// Says that a setting is missing, unless it may stand in a part of the file that could not be understood.
    func reportMissing(_ origin: Origin, _ message: String) {
        if document.isWhole { report(origin, message) }
    }

    func know(_ path: [String]) {
        knownSettings.insert(path)
    }

    /// Says that nothing below `path` can come from the environment.
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

    /// Everything that was found, together with what was written and never asked for.
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
        // What is called so elsewhere was hardly meant in an element of a list.
        let isElement = path.contains { $0.hasSuffix("]") }
        let elsewhere =
            isElement
            ? []
            : knownSettings.filter { $0.last == key }.map { known in
                known.count == 1 ? "\(key) at the top level" : known.joined(separator: ".")
            }
        let meant = nearestNames(to: key, among: siblings).first ?? (elsewhere.count == 1 ? elsewhere.first : nil)
        return "there is no setting \(quotedForMessage(key))\(place)\(meant.map { "; did you mean \($0)?" } ?? "")"
    }

    /// Why a variable that nobody asked for is a mistake; nil if it may be anybody's.
    private func sentence(variable name: String) -> String? {
        let no = "there is no such setting"
        // The prefix is the same in all of them: it must not make short names look alike.
        let own = { (name: String) in String(name.dropFirst(Self.variablePrefix.count)) }
        if let meant = nearestNames(to: own(name), among: knownVariables.map(own)).first {
            return "\(no); did you mean \(Self.variablePrefix)\(meant)?"
        }
        let map = fileOnly.first { name == environmentName($0) || name.hasPrefix(environmentName($0) + "_") }
        if let map {
            return "\(map.joined(separator: ".")) can be set in the file only"
        }
        if name.hasPrefix(environmentName(["apps"]) + "_") {
            return "\(no); apps get their names in the file, and only the app default can do without it"
        }
        return nil
    }
}
