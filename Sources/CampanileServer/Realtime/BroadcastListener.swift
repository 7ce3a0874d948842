import CampanileCore
import Synchronization

/// An app's listeners on this node.
struct BroadcastAudience {
    /// The offset up to which those who are live were sent everything; nil before the first is.
    var through: Int64?
    var epoch: String?
    var streams: [ExactText: [ObjectIdentifier: BroadcastListener]] = [:]
    /// The number of those whose place is being read.
    var joining = 0
    /// True while the news are being read, and when more may have come since.
    var (isRead, hasNews) = (false, false)

    var isEmpty: Bool { streams.isEmpty && joining == 0 && !isRead }
}

/// One subscription to a stream of an app's own.
///
/// Sendable: but for two atomics, what changes is touched on the loop's thread only.
final class BroadcastListener: StreamSubscription, @unchecked Sendable {
    enum Phase {
        case catchingUp(after: Int64)
        /// It gets what is later than this as it comes.
        case live(from: Int64)
    }

    let stream: BroadcastStream
    let subscriber: any Subscriber
    private let hub: BroadcastHub
    // The two atomics stand behind the phase, where they need no word of their own: there are very many listeners.
    var phase = Phase.catchingUp(after: .max)
    private let cancelled = Atomic<Bool>(false)
    private let live = Atomic<Bool>(false)
    /// True while its next part is being read.
    var isRead = false
    /// True until it is told that it has what it asked for.
    var owesConfirmation = false

    var isCancelled: Bool { cancelled.load(ordering: .sequentiallyConsistent) }

    init(_ stream: BroadcastStream, _ subscriber: any Subscriber, in hub: BroadcastHub) {
        self.stream = stream
        self.subscriber = subscriber
        self.hub = hub
    }

    /// It is where the others are.
    func join(after offset: Int64) {
        if owesConfirmation { tell(.confirmed) }
        owesConfirmation = false
        phase = .live(from: offset)
        live.store(true, ordering: .releasing)
    }

    func fallBehind(after offset: Int64) {
        phase = .catchingUp(after: offset)
        live.store(false, ordering: .releasing)
    }

    func tell(_ reply: HistoryReply) {
        hub.counts.count(reply)
        subscriber.deliver(EventBatch(reply))
    }

    func drained() {
        // Each broadcast drains thousands, and who is live waits for nothing.
        guard !live.load(ordering: .acquiring) else { return }
        hub.perform { [self] in hub.carryOn(self) }
    }

    func cancel() {
        cancelled.store(true, ordering: .sequentiallyConsistent)
        hub.remove(self)
    }
}
