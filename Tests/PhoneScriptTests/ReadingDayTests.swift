import CampanileCore
import Foundation
import PushSimulator
import Testing

@testable import PhoneScript

/// How many pushes days of reading take, beside the fewest that somebody who knew the whole day could send. `make phones` has 1,000 days.
@Suite struct ReadingDayTests {
    /// Seeds, each of which has a hundred days.
    private static let seeds = ProcessInfo.processInfo.environment["READING_SEEDS"].flatMap { UInt64($0) } ?? 0
    private static let days = seeds > 0 ? 100 : 20

    /// Pushes that show nothing.
    private struct Pushes {
        var ours = 0
        var oracle = 0
        var naive = 0

        func times(_ count: Int) -> Double { (Double(count) / Double(max(oracle, 1)) * 1_000).rounded() / 1_000 }
    }

    /// Runs the days of a seed at once, each with a user of its own.
    private static func run(seed: UInt64) async throws -> Pushes {
        var chance = SeededGenerator(seed: seed)
        let days = (0..<days).map { ReadingDay(user: $0, &chance) }
        let world = try await ScriptWorld(rules: PhoneRules(), seed: seed, hasExtension: true)
        for day in days {
            for card in day.phones { try await world.perform(.phone(card), settles: false) }
        }
        var now: Int64 = 0
        for (at, step) in days.flatMap(\.steps).sorted(by: { $0.at < $1.at }) {
            if at > now { try await world.perform(.wait(at - now)) }
            now = at
            try await world.perform(step)
        }
        try await world.perform(.wait(60_000))
        let alerts = days.reduce(0) { $0 + $1.entries * $1.phones.count }
        var pushes = Pushes(ours: world.simulator.counters.accepted - alerts)
        for day in days {
            pushes.oracle += day.fewestPushes
            pushes.naive += day.naivePushes
        }
        await world.stop()
        return pushes
    }

    @Test(
        "days of reading take at most three in five of the pushes that one at each read would, which are three times the fewest that do",
        arguments: seeds > 0 ? 1...seeds : 1...1)
    func pushes(_ seed: UInt64) async throws {
        let pushes = try await Self.run(seed: seed)
        print(
            "reading days, seed \(seed): \(pushes.ours) pushes, the fewest \(pushes.oracle): \(pushes.times(pushes.ours)) times; at each read \(pushes.naive): \(pushes.times(pushes.naive)) times"
        )
        #expect(pushes.oracle > 0)
        #expect(pushes.naive >= 3 * pushes.oracle)
        #expect(pushes.ours * 5 < pushes.naive * 3)
    }
}

/// A day of a user with one to four phones, three of them iPhones at most: 5 to 60 notifications, read in bursts of up to fifteen within
/// 30 s on a phone that is on; each phone is off for up to twelve hours.
private struct ReadingDay {
    private static let hour: Int64 = 3_600_000
    private static let burst: Int64 = 30_000
    /// A phone has to be right 5 s after its user has changed nothing for 5 s.
    private static let duty: Int64 = 10_000

    private struct Event {
        enum Kind: Equatable { case created, read(phone: Int) }
        let at: Int64
        let entry: Int
        let kind: Kind
    }

    let phones: [ScriptStep.PhoneCard]
    let entries: Int
    private let user: Int
    private var events: [Event] = []
    private var off: [Range<Int64>] = []

    init(user: Int, _ chance: inout SeededGenerator) {
        self.user = user
        phones = (0..<Int.random(in: 1...4, using: &chance)).map { place in
            ScriptStep.PhoneCard(
                name: "\(user)-\(place)", user: "user-\(user)", platform: place == 3 ? .android : .ios, hasExtension: true)
        }
        entries = Int.random(in: 5...60, using: &chance)
        for _ in phones {
            let length = Int64.random(in: 0...12 * Self.hour, using: &chance)
            let begin = Int64.random(in: 0...24 * Self.hour - length, using: &chance)
            off.append(begin..<begin + length)
        }
        let created = (0..<entries).map { _ in Int64.random(in: 0..<24 * Self.hour, using: &chance) }.sorted()
        events = created.enumerated().map { Event(at: $1, entry: $0, kind: .created) }
        addBursts(created, &chance)
        events.sort { $0.at < $1.at }
    }

    private mutating func addBursts(_ created: [Int64], _ chance: inout SeededGenerator) {
        var unread: [Int] = []
        var next = 0
        let begins = (0..<max(1, entries / 8)).map { _ in Int64.random(in: 0..<24 * Self.hour, using: &chance) }.sorted()
        var free: Int64 = 0
        for begin in begins where begin >= free {
            while next < entries, created[next] < begin {
                unread.append(next)
                next += 1
            }
            let ready = phones.indices.filter { !off[$0].overlaps(begin..<begin + Self.burst) }
            let size = min(Int.random(in: 1...15, using: &chance), unread.count)
            guard size > 0, let phone = ready.randomElement(using: &chance) else { continue }
            let times = (0..<size).map { _ in begin + Int64.random(in: 0..<Self.burst, using: &chance) }.sorted()
            for (at, entry) in zip(times, unread.prefix(size)) {
                events.append(Event(at: at, entry: entry, kind: .read(phone: phone)))
            }
            unread.removeFirst(size)
            free = begin + Self.burst
        }
    }

    var steps: [(at: Int64, step: ScriptStep)] {
        var steps: [(at: Int64, step: ScriptStep)] = events.map { event in
            let name = "\(user)/\(event.entry)"
            switch event.kind {
            case .created: return (event.at, .notify(user: "user-\(user)", name: name, title: "T", collapseKey: nil))
            case .read(let phone): return (event.at, .act(.phone(phones[phone].name), .read(name)))
            }
        }
        for (phone, range) in zip(phones, off) {
            steps.append((range.lowerBound, .change(phone: phone.name, PhoneChange(isOnline: false))))
            steps.append((range.upperBound, .change(phone: phone.name, PhoneChange(isOnline: true))))
        }
        return steps
    }

    /// One to each other phone at each read.
    var naivePushes: Int { events.count { $0.kind != .created } * (phones.count - 1) }

    /// The pushes of somebody who knows the whole day, beside the alerts, which carry the number and take away what they like.
    var fewestPushes: Int { phones.indices.reduce(0) { $0 + fewestPushes(to: $1) } }

    private func fewestPushes(to phone: Int) -> Int {
        var pushes = 0
        var unread: Set<Int> = []
        var shown: Set<Int> = []
        for (place, event) in events.enumerated() {
            switch event.kind {
            case .created:
                unread.insert(event.entry)
                shown = unread
            case .read(let reader):
                unread.remove(event.entry)
                if reader == phone { shown = unread }
            }
            let until = place + 1 < events.count ? events[place + 1].at : .max
            let isOff = off[phone].contains(event.at + Self.duty)
            let due = isOff ? off[phone].upperBound + 5_000 : event.at + Self.duty
            // A phone is right if it shows what is unread, and as many: nothing else was ever created.
            guard due < until, shown != unread else { continue }
            pushes += 1
            shown = unread
        }
        return pushes
    }
}
