/// The batches that a subscriber was given and that are not sent yet.
///
/// Sendable: the mail is touched under the lock of `CableTurns`, the rest on the cable's thread only.
final class CableBacklog: @unchecked Sendable {
    /// The batches that the hub left, and that the cable's thread has not taken yet.
    struct Mail {
        private(set) var batch: [EventBatch] = []
        /// The reason why nothing follows.
        private(set) var end: StreamEnd?

        var isEmpty: Bool { batch.isEmpty && end == nil }

        /// - Returns: by how much the waiting bytes have grown.
        mutating func put(_ further: EventBatch) -> Int {
            guard further.kind.isAbsolute, let last = batch.last else {
                batch.append(further)
                return further.bytes
            }
            // Drops an unsent number when there is a newer one.
            batch = [further]
            return further.bytes - last.bytes
        }

        mutating func finish(_ reason: StreamEnd) { end = reason }

        /// Keeps nothing. What is not sent has left a gap, so nothing may follow it.
        /// - Returns: by how much the waiting bytes have shrunk.
        mutating func giveUp() -> Int {
            let bytes = batch.reduce(0) { $0 + $1.bytes }
            batch = []
            end = .overloaded
            return bytes
        }

        /// The batches, which are the taker's from now on.
        mutating func take() -> [EventBatch] {
            defer { batch = [] }
            return batch
        }
    }

    var mail = Mail()
    /// True while it waits for a turn.
    var isQueued = false
    /// True while it waits for its socket to take more.
    var isStalled = false
    /// The reason why nothing follows what is in hand.
    private(set) var end: StreamEnd?
    private var hand = Line<EventBatch>()
    /// Of the first in hand, the message that is sent next.
    private var next = 0

    var isEmpty: Bool { hand.isEmpty && end == nil }

    /// The message to be sent now.
    var first: (batch: EventBatch, message: Int)? { hand.first.map { ($0, next) } }

    /// - Returns: the bytes of dropped batches, which newer ones replace.
    func add(_ batch: [EventBatch], _ end: StreamEnd?) -> Int {
        var outdated = 0
        for further in batch {
            if further.kind.isAbsolute { outdated += drop() }
            hand.append(further)
        }
        self.end = end
        return outdated
    }

    /// The first message was sent.
    /// - Returns: the bytes of the batches that were finished by that.
    func advance() -> Int {
        guard let batch = hand.first else { return 0 }
        next += 1
        guard next >= batch.messages.count else { return 0 }
        next = 0
        return hand.popFirst()?.bytes ?? 0
    }

    /// Keeps nothing.
    /// - Returns: its bytes.
    func drop() -> Int {
        var bytes = 0
        while let batch = hand.popFirst() { bytes += batch.bytes }
        next = 0
        return bytes
    }
}
