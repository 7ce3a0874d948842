import CampanileCore
import Foundation
import PushSimulator
import Testing

@testable import PhoneScript

/// Many users with several phones each, which are off, ended and on as it comes, and read here and there. `make phones` has 2,500 users
/// with 10,000 phones.
@Suite struct PopulationTests {
    private static let asked = ProcessInfo.processInfo.environment["SCRIPT_USERS"].flatMap { Int($0) }
    static let users = asked ?? 8
    private static let rounds = 16

    /// All settings of the switches; of the short run three, in which each position of each switch stands.
    static let rules = {
        guard asked != nil else {
            return [
                PhoneRules(stored: .one, backgroundBudget: 0), PhoneRules(stored: .all, backgroundBudget: 3), PhoneRules(),
            ]
        }
        return PhoneRules.Stored.allCases.flatMap { stored in
            ScriptRun.budgets.map { PhoneRules(stored: stored, backgroundBudget: $0) }
        }
    }()

    private struct Findings {
        /// Phones that are on and have budget left, and show what was handled; and those that show it 5 s later.
        var ready = 0
        var readyStale = 0
        /// Pushes that named nothing that an iPhone showed, without those to phones that Apple or Google kept an alert from. Nobody but
        /// an Android app in the foreground knows that it read an alert, so a message goes to it, too.
        var idle = 0
        var staleBeforeOpening = 0
        var staleAtTheEnd = 0
    }

    /// A user's phones: three iPhones, of which one may have no extension, and an Android phone.
    private static func introduce(_ user: Int, _ world: ScriptWorld, haveExtension: Bool) async throws -> [String] {
        var names: [String] = []
        for (place, platform) in [PhonePlatform.ios, .ios, .ios, .android].enumerated() {
            let name = "\(user)-\(place)"
            let card = ScriptStep.PhoneCard(
                name: name, user: "user-\(user)", platform: platform, hasExtension: haveExtension || place != 2)
            try await world.perform(.phone(card), settles: false)
            names.append(name)
        }
        return names
    }

    private static func step(
        _ user: Int, _ phones: [String], _ made: inout [String], _ chance: inout SeededGenerator
    ) -> ScriptStep {
        let phone = phones.randomElement(using: &chance) ?? ""
        let actor = Bool.random(using: &chance) ? ScriptStep.Actor.phone(phone) : .page(user: "user-\(user)")
        let name = made.randomElement(using: &chance)
        switch Int.random(in: 0..<14, using: &chance) {
        case 0..<5:
            made.append("\(user)/\(made.count)")
            return .notify(user: "user-\(user)", name: made.last ?? "", title: "T", collapseKey: nil)
        case 5..<8: return name.map { .act(actor, .read($0)) } ?? .show
        case 8: return .act(actor, .readAll)
        case 9: return name.map { .act(actor, .delete($0)) } ?? .show
        case 10: return name.map { .withdraw(name: $0) } ?? .show
        case 11: return .change(phone: phone, PhoneChange(isOnline: Bool.random(using: &chance)))
        case 12: return .change(phone: phone, PhoneChange(isStopped: true))
        default: return .open(phone: phone)
        }
    }

    private static func run(_ rules: PhoneRules, seed: UInt64, opens: Bool = true, haveExtension: Bool = true) async throws
        -> Findings
    {
        let world = try await ScriptWorld(rules: rules, seed: seed, hasExtension: haveExtension)
        defer { withExtendedLifetime(world) {} }
        var chance = SeededGenerator(seed: seed)
        var findings = Findings()
        var phones: [[String]] = []
        for user in 0..<users { phones.append(try await introduce(user, world, haveExtension: haveExtension)) }
        var made = [[String]](repeating: [], count: users)
        for _ in 0..<rounds {
            for user in 0..<users {
                // One after the other, as a reading and the next alert.
                for _ in 0..<Int.random(in: 1...2, using: &chance) {
                    let next = step(user, phones[user], &made[user], &chance)
                    try await world.perform(next, settles: next.isOnPhone)
                }
            }
            for phone in phones.joined() where Bool.random(using: &chance) {
                try await world.perform(.change(phone: phone, PhoneChange(isInForeground: false)), settles: false)
            }
            try await world.settle()
            let before = Set(world.stale.filter { $0.count > 0 && $0.phone.isReady(rules) }.map(\.name))
            try await world.perform(.wait(5_000))
            findings.ready += before.count
            findings.readyStale += world.stale.count { $0.count > 0 && before.contains($0.name) }
        }
        for phone in phones.joined() {
            try await world.perform(.change(phone: phone, PhoneChange(isOnline: true)), settles: false)
        }
        try await world.perform(.wait(60_000))
        findings.staleBeforeOpening = world.stale.reduce(0) { $0 + $1.count }
        if opens {
            for phone in phones.joined() { try await world.perform(.open(phone: phone), settles: false) }
            try await world.settle()
        }
        findings.staleAtTheEnd = world.stale.reduce(0) { $0 + $1.count }
        findings.idle = world.stale.map(\.phone).filter { $0.dropped == 0 && $0.platform == .ios }.reduce(0) {
            $0 + $1.idleDismissals
        }
        await world.stop()
        return findings
    }

    @Test(
        "opened once, no phone shows what was read, deleted or withdrawn; most that can don't after 5 s; no push goes for what none shows, if all have the extension",
        arguments: rules, [true, false])
    func settles(_ rules: PhoneRules, haveExtension: Bool) async throws {
        let findings = try await Self.run(rules, seed: 1, haveExtension: haveExtension)
        print(
            "phones: \(Self.users * 4) of \(Self.users) users, \(rules), \(haveExtension ? "all" : "most") with the extension: \(findings)"
        )
        #expect(findings.staleAtTheEnd == 0)
        #expect(findings.ready > 0)
        #expect(findings.readyStale * 20 <= findings.ready, "\(findings)")
        // Nobody knows which phones have it: where an alert overtook a badge push, that goes, too.
        if haveExtension { #expect(findings.idle == 0, "\(findings)") }
        #expect(findings.staleBeforeOpening > 0, "there was something to find")
    }

    @Test("the control: phones that are never opened show what was handled")
    func control() async throws {
        let findings = try await Self.run(PhoneRules(backgroundBudget: 0), seed: 1, opens: false)
        #expect(findings.staleAtTheEnd > 0)
    }

    @Test("with no budget and never opened, each alert takes away twenty, or all up to one, from every phone with the extension")
    func alertsAlone() async throws {
        let world = try await ScriptWorld(rules: PhoneRules(backgroundBudget: 0), seed: 1)
        let card = ScriptStep.PhoneCard(name: "a", user: "alice", platform: .ios, hasExtension: true)
        try await world.perform(.phone(card))
        func notify(_ name: String) async throws {
            try await world.perform(.notify(user: "alice", name: name, title: name, collapseKey: nil))
            try await world.settle()
        }
        for number in 0..<50 { try await notify("\(number)") }
        for number in 0..<45 { try await world.perform(.act(.page(user: "alice"), .read("\(number)"))) }
        try await world.perform(.wait(60_000))
        #expect(world.stale.map(\.count) == [45])
        var counts: [Int] = []
        for number in 0..<3 {
            try await notify("later-\(number)")
            counts.append(world.stale[0].count)
        }
        #expect(counts == [25, 5, 0])
        try await world.perform(.act(.page(user: "alice"), .readAll))
        // Before the 0 goes.
        try await notify("last")
        #expect(world.stale[0].count == 0)
        await world.stop()
    }
}

extension ScriptStep {
    /// True if the app takes something away by itself: a push that is in flight to it meanwhile would bring it back, or find nothing.
    fileprivate var isOnPhone: Bool {
        switch self {
        case .open, .act(.phone, _): true
        default: false
        }
    }
}

extension Phone {
    /// Returns whether the phone can take something away now, without its user's doing.
    fileprivate func isReady(_ rules: PhoneRules) -> Bool {
        guard isOnline, !isAsleep, !isStopped else { return false }
        return platform == .android || rules.backgroundBudget.map { wakes < $0 } ?? true
    }
}
