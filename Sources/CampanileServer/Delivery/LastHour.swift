import CampanileCore
import Push
import Synchronization

/// The counts of what was created and answered in the last hour, minute by minute, for operators, who look at them as a picture.
/// They are kept in memory, because counting in the database would mean looking at every delivery. So they begin when the server
/// starts.
final class LastHour: Sendable {
    static let minutes = 60

    /// The answers of one minute.
    struct Answers: Sendable, Equatable {
        var accepted = 0
        /// The push goes again.
        var retried = 0
        var rejected = 0
        /// The token is dead, says the provider.
        var gone = 0

        mutating func count(_ word: AnswerWord) {
            switch word {
            case .accepted: accepted += 1
            case .retry, .unprocessed, .unanswered, .misconfigured: retried += 1
            case .rejected: rejected += 1
            case .gone: gone += 1
            }
        }
    }

    struct DeadToken: Sendable {
        /// The token's end.
        let tail: String?
        let provider: DeviceProvider
        let at: Timestamp
        let reason: String?
    }

    /// The hour of one app. Minutes before the server's start are nil, as are those in which it may have been left out.
    struct Reading: Sendable {
        let firstMinute: Timestamp
        let created: [Int?]
        let answers: [DeviceProvider: [Answers?]]
        /// The newest first.
        let deadTokens: [DeadToken]
    }

    /// The counts of many apps or lanes, of each minute by minute.
    private struct Table<Key: Hashable & Sendable, Count: Equatable & Sendable>: Sendable {
        private struct Row: Sendable {
            /// The minute in which it began.
            let first: Int64
            /// By minute modulo the hour.
            var counts: [Count]
        }

        private let none: Count
        private var rows: [Key: Row] = [:]
        /// The last minute in which somebody was left out, because there were too many.
        private var leftOut: Int64?

        init(_ none: Count) { self.none = none }

        /// - Parameter isConfigured: whether it has its place among any number of others.
        /// - Returns: whether it was counted.
        @discardableResult
        mutating func count(_ key: Key, isConfigured: Bool, in minute: Int64, _ add: (inout Count) -> Void) -> Bool {
            guard rows[key] != nil || isConfigured || rows.count < Limits.namedLanes else {
                leftOut = minute
                return false
            }
            let none = none
            add(
                &rows[key, default: Row(first: minute, counts: Array(repeating: none, count: LastHour.minutes))]
                    .counts[Int(minute % Int64(LastHour.minutes))])
            return true
        }

        mutating func clear(_ minute: Int64) {
            let none = none
            for key in rows.keys { rows[key]?.counts[Int(minute % Int64(LastHour.minutes))] = none }
        }

        mutating func forgetSilent() { rows = rows.filter { $0.value.counts.contains { $0 != none } } }

        /// - Returns: nil if it may have been left out.
        func reading(_ key: Key, isConfigured: Bool, in minute: Int64) -> Count? {
            if let row = rows[key], minute >= row.first { return row.counts[Int(minute % Int64(LastHour.minutes))] }
            return !isConfigured && minute <= leftOut ?? .min ? nil : none
        }
    }

    private struct State: Sendable {
        /// Minutes since 1970: the one that is counted in, and the first one that was.
        var current: Int64
        var first: Int64
        var created = Table<String, Int>(0)
        var answers = Table<Lane, Answers>(Answers())
        /// The oldest first.
        var deadTokens: [String: [DeadToken]] = [:]

        /// - Returns: the minute to count in.
        mutating func minute(at now: Timestamp) -> Int64 {
            let hour = Int64(LastHour.minutes)
            let minute = now.milliseconds / 60_000
            // A clock that was set back a little goes on in the minute that it had reached; otherwise the hour begins anew.
            if minute <= current - hour { self = State(current: minute, first: minute) }
            if minute > current {
                for passed in max(current + 1, minute - hour + 1)...minute {
                    created.clear(passed)
                    answers.clear(passed)
                }
                current = minute
                forgetSilent(since: Timestamp(milliseconds: (minute - hour + 1) * 60_000))
            }
            return current
        }

        private mutating func forgetSilent(since time: Timestamp) {
            created.forgetSilent()
            answers.forgetSilent()
            deadTokens = deadTokens.mapValues { $0.filter { $0.at >= time } }.filter { !$0.value.isEmpty }
        }
    }

    private let configured: Set<Lane>
    private let configuredApps: Set<String>
    private let state: Mutex<State>

    /// - Parameter configured: the lanes that are counted, they and their apps, among any number of others.
    init(since start: Timestamp, configured: Set<Lane> = []) {
        let minute = start.milliseconds / 60_000
        self.configured = configured
        configuredApps = Set(configured.map(\.app))
        state = Mutex(State(current: minute, first: minute))
    }

    func countCreated(_ count: Int, app: String, at now: Timestamp) {
        state.withLock { state in
            let minute = state.minute(at: now)
            state.created.count(app, isConfigured: configuredApps.contains(app), in: minute) { $0 += count }
        }
    }

    func count(_ answered: AnsweredPush) {
        let (lane, word) = (answered.push.lane, AnswerWord(answered.answer.outcome))
        state.withLock { state in
            let minute = state.minute(at: answered.at)
            let isCounted = state.answers.count(lane, isConfigured: configured.contains(lane), in: minute) { $0.count(word) }
            guard isCounted, word == .gone else { return }
            let token = DeadToken(
                tail: DeviceToken.tail(of: answered.push.message.device.token), provider: lane.provider, at: answered.at,
                reason: answered.answer.reason)
            state.deadTokens[lane.app, default: []].append(token)
            if state.deadTokens[lane.app, default: []].count > Limits.shownDeadTokens {
                state.deadTokens[lane.app]?.removeFirst()
            }
        }
    }

    func reading(of app: String, at now: Timestamp) -> Reading {
        state.withLock { state in
            let current = state.minute(at: now)
            let minutes = (current - Int64(LastHour.minutes) + 1)...current
            func known<Count>(_ count: (Int64) -> Count?) -> [Count?] { minutes.map { $0 < state.first ? nil : count($0) } }
            let answers = DeviceProvider.allCases.map { provider in
                let lane = Lane(app: app, provider: provider)
                let isConfigured = configured.contains(lane)
                return (provider, known { state.answers.reading(lane, isConfigured: isConfigured, in: $0) })
            }
            let isConfigured = configuredApps.contains(app)
            return Reading(
                firstMinute: Timestamp(milliseconds: minutes.lowerBound * 60_000),
                created: known { state.created.reading(app, isConfigured: isConfigured, in: $0) },
                answers: Dictionary(uniqueKeysWithValues: answers), deadTokens: (state.deadTokens[app] ?? []).reversed())
        }
    }
}
