import Synchronization

/// The stage of a connection, for the deadlines.
enum Stage: UInt64 {
    /// No request line is complete: a new or an idle connection.
    case waiting = 0
    /// The request line is here, the rest of the request is still coming.
    case receiving = 1
    /// The application works on the answer, and sets its own deadlines.
    case handling = 2
    /// The answer is on its way.
    case responding = 3
    /// The request was refused, and the rest of its body is read away.
    case refused = 4

    /// True while the library waits for bytes of the client.
    var readsFromClient: Bool { self == .waiting || self == .receiving || self == .refused }

    /// True while the client has still to hear something of a request.
    var isOwedAnswer: Bool { self != .waiting && self != .refused }

    /// Returns whether a connection has overstayed.
    /// - Parameters:
    ///   - since: when the stage began, monotonic nanoseconds.
    ///   - now: the same clock.
    func isOverdue(since: UInt64, now: UInt64, limits: Limits) -> Bool {
        let age = now > since ? now - since : 0
        return switch self {
        case .waiting: age > limits.idleDeadline
        case .receiving, .refused: age > limits.requestDeadline
        case .handling: false
        case .responding: age > limits.responseDeadline
        }
    }
}

/// A stage and the time it began in one word, so that the daemon's thread can write it with one plain store while
/// the sweeper reads it.
struct StageClock: ~Copyable {
    private let word: Atomic<UInt64>

    init(now: UInt64) { word = Atomic(now << 3) }

    func enter(_ stage: Stage, at now: UInt64) {
        word.store(now << 3 | stage.rawValue, ordering: .relaxed)
    }

    var current: (stage: Stage, since: UInt64) {
        let value = word.load(ordering: .relaxed)
        return (Stage(rawValue: value & 7) ?? .waiting, value >> 3)
    }
}
