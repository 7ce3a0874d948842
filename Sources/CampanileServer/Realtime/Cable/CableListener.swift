import Synchronization

/// One subscription's ear in the hub: puts what it hears into the mailbox of the cable's thread.
///
/// Sendable: what changes, but for the atomic, is touched on the cable's thread only.
final class CableListener: StreamListener, @unchecked Sendable {
    let number: Int
    let kind: StreamKind
    let identifier: [UInt8]
    let connection: CableConnection
    /// Its place in the hub; nil before it has one and after it left.
    var subscription: (any StreamSubscription)?
    /// What arrives after it was cancelled must not reach the client.
    var isCancelled = false
    /// The mailbox was full when news came: there is a gap, so nothing may follow it.
    let isOverrun = Atomic<Bool>(false)

    init(number: Int, kind: StreamKind, identifier: [UInt8], connection: CableConnection) {
        self.number = number
        self.kind = kind
        self.identifier = identifier
        self.connection = connection
    }

    func deliver(_ news: StreamNews) { connection.loop.post(.news(news), to: self) }

    func end(_ reason: StreamEnd) { connection.loop.post(.end(reason), to: self) }

    /// On the cable's thread.
    func cancel() {
        isCancelled = true
        subscription?.cancel()
        subscription = nil
    }
}
