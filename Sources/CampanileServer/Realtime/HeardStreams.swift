import CampanileCore
import Synchronization

/// The streams of an app that somebody listens to.
struct HeardStreams: Sendable, Equatable {
    struct One: Sendable, Equatable {
        let name: String
        let listeners: Int
    }

    private(set) var streams = 0
    private(set) var listeners = 0
    /// The ones with the most listeners, most first.
    private(set) var most: [One] = []

    init(_ counts: [ExactText: Int]) {
        streams = counts.count
        listeners = counts.values.reduce(0, +)
        most = counts.map { One(name: $0.text, listeners: $1) }
            .sorted { ($1.listeners, $0.name) < ($0.listeners, $1.name) }.prefix(Limits.heardStreamsShown).map { $0 }
    }
}

/// The answer to who listens, which is given once: by a loop that has stopped, when it drops the question.
final class HeardAnswer: Sendable {
    private let continuation: Mutex<CheckedContinuation<[ExactText: Int], Never>?>

    init(_ continuation: CheckedContinuation<[ExactText: Int], Never>) { self.continuation = Mutex(continuation) }

    deinit { give([:]) }

    func give(_ counts: [ExactText: Int]) {
        let waiting = continuation.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        waiting?.resume(returning: counts)
    }
}
