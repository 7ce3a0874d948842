import CampanileCore
import Push

/// The meaning of a provider's answer, in a word.
enum AnswerWord: String, CaseIterable, Sendable {
    case accepted, retry, unprocessed, unanswered, gone, rejected, misconfigured

    init(_ outcome: PushOutcome) {
        self =
            switch outcome {
            case .accepted, .acceptedElsewhere: .accepted
            case .deviceBusy, .unavailable: .retry
            case .unprocessed: .unprocessed
            case .unanswered: .unanswered
            case .tokenGone, .tokenForeign: .gone
            case .rejected: .rejected
            case .misconfigured: .misconfigured
            }
    }
}

/// How many pushes were answered since the start, and how, lane by lane.
struct PushAnswers: Sendable {
    struct Meaning: Hashable, Comparable, Sendable {
        /// False for a badge push.
        let isAlert: Bool
        let word: AnswerWord

        static func < (left: Meaning, right: Meaning) -> Bool {
            (left.isAlert ? 0 : 1, left.word.rawValue) < (right.isAlert ? 0 : 1, right.word.rawValue)
        }
    }

    private(set) var byLane: [Lane: [Meaning: Int]] = [:]
    private let configured: Set<Lane>

    /// - Parameter configured: the lanes that are always counted by themselves.
    init(configured: Set<Lane> = []) { self.configured = configured }

    /// Other lanes beyond the limit are counted together.
    mutating func count(_ lane: Lane, isAlert: Bool, _ outcome: PushOutcome) {
        let isNamed = byLane[lane] != nil || configured.contains(lane) || byLane.count < Limits.namedLanes
        byLane[isNamed ? lane : .others(lane.provider), default: [:]][
            Meaning(isAlert: isAlert, word: AnswerWord(outcome)), default: 0] += 1
    }
}

/// A lane as it is now.
struct LaneReport: Sendable {
    var inFlight = 0
    /// The condition of a stopped part; nil when all run. Of several an outage counts first, then the one that is older, and that of a
    /// sandbox only where no push went to a device of production since the start.
    var condition: LaneCondition?
    var answers: [PushAnswers.Meaning: Int] = [:]
}
