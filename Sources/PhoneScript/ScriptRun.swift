import CampanileCore
import FoundationEssentials
package import PushSimulator

/// The runs of one script under every setting of the simulator's switches, from the same beginning and with the same chance.
package struct ScriptRun: Sendable {
    package static let budgets: [Int?] = [0, 3, nil]

    private let script: Script
    private let seed: UInt64

    /// - Throws: `Mistake` with a sentence for each line of the text that can't be read.
    package init(_ text: String, seed: UInt64) throws {
        script = try Script(text)
        self.seed = seed
    }

    /// - Throws: `Mistake` as above, and for a file that can't be read.
    package init(file: String, seed: UInt64) throws {
        guard let bytes = FileManager.default.contents(atPath: file) else {
            throw Mistake("The script \(file) can't be read.")
        }
        try self.init(String(decoding: bytes, as: UTF8.self), seed: seed)
    }

    /// The settings of the switches.
    private static var allRules: [PhoneRules] {
        PhoneRules.Stored.allCases.flatMap { stored in
            budgets.map { PhoneRules(stored: stored, backgroundBudget: $0) }
        }
    }

    /// Runs the script under each setting, and returns what every phone shows at its `show` steps and at its end; once, if that is the same
    /// under all of them, else with the switch on which it depends.
    package func report() async throws -> [String] {
        var results: [(rules: PhoneRules, lines: [String])] = []
        for rules in Self.allRules { results.append((rules, try await run(under: rules))) }
        return Self.report(results)
    }

    /// Runs the script under one setting.
    package func run(under rules: PhoneRules) async throws -> [String] {
        let world = try await ScriptWorld(rules: rules, seed: seed)
        do {
            let lines = try await run(in: world)
            await world.stop()
            return lines
        } catch {
            await world.stop()
            throw error
        }
    }

    private func run(in world: ScriptWorld) async throws -> [String] {
        var lines: [String] = []
        var chance = RandomSteps(script, seed: seed)
        for (line, step) in script.steps {
            do {
                switch step {
                case .show:
                    try await world.settle()
                    lines += ["line \(line):"] + world.screens
                case .random(let count):
                    for _ in 0..<count { try await world.perform(chance.next()) }
                default: try await world.perform(step)
                }
            } catch let mistake as Mistake {
                throw Mistake("Line \(line): \(mistake.sentence)")
            }
        }
        try await world.settle()
        return lines + ["at the end:"] + world.screens
    }

    // MARK: - The report

    private static func report(_ results: [(rules: PhoneRules, lines: [String])]) -> [String] {
        guard let first = results.first else { return [] }
        if results.allSatisfy({ $0.lines == first.lines }) { return first.lines + ["The same under every switch."] }
        let byBudget = groups(results) {
            "a background budget of \($0.backgroundBudget.map(String.init) ?? "any number") an hour"
        }
        let byStored = groups(results) { "\($0.stored.rawValue) of the pushes waiting for a phone that is off" }
        for (name, groups) in [("the background budget", byBudget), ("what waits for a phone that is off", byStored)] {
            guard groups.allSatisfy({ group in Set(group.results).count == 1 }) else { continue }
            return groups.flatMap { ["With \($0.name):"] + ($0.results.first ?? []) } + ["It depends on \(name) alone."]
        }
        return results.flatMap { result in
            [
                "With a background budget of \(result.rules.backgroundBudget.map(String.init) ?? "any number") an hour, and "
                    + "\(result.rules.stored.rawValue) of the pushes waiting for a phone that is off:"
            ] + result.lines
        } + ["It depends on both switches."]
    }

    /// The results with each setting of one switch, in the order of the settings.
    private static func groups(
        _ results: [(rules: PhoneRules, lines: [String])], _ name: (PhoneRules) -> String
    ) -> [(name: String, results: [[String]])] {
        var groups: [(name: String, results: [[String]])] = []
        for (rules, lines) in results {
            if let place = groups.firstIndex(where: { $0.name == name(rules) }) {
                groups[place].results.append(lines)
            } else {
                groups.append((name(rules), [lines]))
            }
        }
        return groups
    }
}

/// Steps by chance, the same for a seed whatever the phones show.
struct RandomSteps {
    private let phones: [ScriptStep.PhoneCard]
    private var chance: SeededGenerator
    /// The notifications of the script, and those made by chance.
    private var names: [String] = []
    private var made = 0

    init(_ script: Script, seed: UInt64) {
        chance = SeededGenerator(seed: seed)
        var phones: [ScriptStep.PhoneCard] = []
        for (_, step) in script.steps {
            switch step {
            case .phone(let card): phones.append(card)
            case .notify(_, let name, _, _): names.append(name)
            default: break
            }
        }
        self.phones = phones
    }

    mutating func next() -> ScriptStep {
        let phone = phones[Int.random(in: 0..<phones.count, using: &chance)]
        let actor = Bool.random(using: &chance) ? ScriptStep.Actor.phone(phone.name) : .page(user: phone.user)
        let name = names.randomElement(using: &chance)
        switch Int.random(in: 0..<20, using: &chance) {
        case 0..<6:
            made += 1
            // No script can have this name: the sign begins a comment.
            names.append("#\(made)")
            return .notify(user: phone.user, name: "#\(made)", title: "Number \(made)", collapseKey: nil)
        case 6..<10: return name.map { .act(actor, .read($0)) } ?? .wait(1_000)
        case 10: return .act(actor, .readAll)
        case 11: return name.map { .act(actor, .delete($0)) } ?? .wait(1_000)
        case 12: return name.map { .withdraw(name: $0) } ?? .wait(1_000)
        case 13: return .change(phone: phone.name, PhoneChange(isOnline: Bool.random(using: &chance)))
        case 14: return .open(phone: phone.name)
        case 15: return .change(phone: phone.name, PhoneChange(isInForeground: false))
        case 16: return .change(phone: phone.name, PhoneChange(isStopped: true))
        default: return .wait(Int64.random(in: 100...20_000, using: &chance))
        }
    }
}
