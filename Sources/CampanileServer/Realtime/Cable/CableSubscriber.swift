/// One subscription at the hub: leaves its batches for the cable's thread.
///
/// Sendable: `backlog` is touched under the turns' lock; what else changes is touched on the cable's thread only.
final class CableSubscriber: Subscriber, @unchecked Sendable {
    let number: Int
    let owner: TurnOwner
    let identifier: [UInt8]
    let connection: CableConnection
    /// True for a stream of an app's own.
    let isOwn: Bool
    /// Its place in the hub; nil before it has one and after it left.
    var subscription: (any StreamSubscription)?
    /// Batches after the cancellation must not reach the client.
    var isCancelled = false
    /// The batches that are not sent yet; nil: none.
    var backlog: CableBacklog?

    init(number: Int, stream: CableStream, identifier: [UInt8], connection: CableConnection) {
        self.number = number
        owner = connection.owner == .strangers ? stream.visitors : connection.owner
        self.identifier = identifier
        self.connection = connection
        isOwn = if case .own = stream { true } else { false }
    }

    func deliver(_ batch: EventBatch) { connection.loop.turns.post(.batch(batch), to: self) }

    var hasRoom: Bool { connection.loop.turns.hasRoom(connection) }

    func end(_ reason: StreamEnd) { connection.loop.turns.post(.end(reason), to: self) }

    /// On the cable's thread.
    func cancel() {
        isCancelled = true
        subscription?.cancel()
        subscription = nil
    }
}
