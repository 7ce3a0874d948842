import CampanileCore
import Push
import Synchronization

/// What was created and answered in the last hour, minute by minute, for operators, who look at it as a picture. It stands in
/// memory, because counting it in the database would mean looking at every delivery; so it begins when the server starts.
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

    /// The hour of one app. Minutes before the server's start are nil.
    struct Reading: Sendable {
        let firstMinute: Timestamp
        let created: [Int?]
        let answers: [DeviceProvider: [Answers?]]
        /// The newest first.
        let deadTokens: [DeadToken]
    }

    private struct State: Sendable {
        /// Minutes since 1970: the one that is counted in, and the first one that was.
        var current: Int64
        var first: Int64
        /// By minute modulo the hour.
        var created: [String: [Int]] = [:]
        var answers: [Lane: [Answers]] = [:]
        /// The oldest first.
        var deadTokens: [String: [DeadToken]] = [:]

        /// - Returns: the place to count in.
        mutating func place(at now: Timestamp) -> Int {
            let hour = Int64(LastHour.minutes)
            let minute = now.milliseconds / 60_000
            // A clock that was set back a little goes on in the minute that it had reached; otherwise the hour begins anew.
            if minute <= current - hour { self = State(current: minute, first: minute) }
            if minute > current {
                for passed in max(current + 1, minute - hour + 1)...minute { clear(Int(passed % hour)) }
                current = minute
                forgetSilent(since: Timestamp(milliseconds: (minute - hour + 1) * 60_000))
            }
            return Int(current % hour)
        }

        private mutating func clear(_ place: Int) {
            for app in created.keys { created[app]?[place] = 0 }
            for lane in answers.keys { answers[lane]?[place] = Answers() }
        }

        private mutating func forgetSilent(since time: Timestamp) {
            created = created.filter { $0.value.contains { $0 > 0 } }
            answers = answers.filter { $0.value.contains { $0 != Answers() } }
            deadTokens = deadTokens.mapValues { $0.filter { $0.at >= time } }.filter { !$0.value.isEmpty }
        }
    }

    private let state: Mutex<State>

    init(since start: Timestamp) {
        let minute = start.milliseconds / 60_000
        state = Mutex(State(current: minute, first: minute))
    }

    func countCreated(_ count: Int, app: String, at now: Timestamp) {
        state.withLock { state in
            let place = state.place(at: now)
            guard state.created[app] != nil || state.created.count < Limits.namedLanes else { return }
            state.created[app, default: Array(repeating: 0, count: LastHour.minutes)][place] += count
        }
    }

    func count(_ answered: AnsweredPush) {
        let (lane, word) = (answered.push.lane, AnswerWord(answered.answer.outcome))
        state.withLock { state in
            let place = state.place(at: answered.at)
            guard state.answers[lane] != nil || state.answers.count < Limits.namedLanes else { return }
            state.answers[lane, default: Array(repeating: Answers(), count: LastHour.minutes)][place].count(word)
            guard word == .gone else { return }
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
            _ = state.place(at: now)
            let minutes = (state.current - Int64(LastHour.minutes) + 1)...state.current
            func inOrder<Count>(_ counts: [Count]?, _ none: Count) -> [Count?] {
                minutes.map { minute in
                    minute < state.first ? nil : counts?[Int(minute % Int64(LastHour.minutes))] ?? none
                }
            }
            let answers = DeviceProvider.allCases.map { provider in
                (provider, inOrder(state.answers[Lane(app: app, provider: provider)], Answers()))
            }
            return Reading(
                firstMinute: Timestamp(milliseconds: minutes.lowerBound * 60_000), created: inOrder(state.created[app], 0),
                answers: Dictionary(uniqueKeysWithValues: answers), deadTokens: (state.deadTokens[app] ?? []).reversed())
        }
    }
}
