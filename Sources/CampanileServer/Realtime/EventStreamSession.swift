import CampanileCore
import HTTPEngine

/// One open stream of server-sent events: its connection and its subscription.
///
/// Sendable: `stream` is written and read on the loop's thread only; the rest never changes.
final class EventStreamSession: StreamSession, Subscriber, EventStreamOwner, @unchecked Sendable {
    let user: StreamUser?
    let endsAt: UInt64
    private let inbox: InboxID
    private let kind: StreamKind
    private let hub: Hub
    private let world: World
    /// Given back with this object.
    private let slot: StreamQuota.Slot
    private var stream: EventStream?

    /// The client's wishes when it opened the stream.
    struct Opening: Sendable {
        let user: StreamUser
        let slot: StreamQuota.Slot
        let inbox: InboxID
        let kind: StreamKind
        let lastEventID: String?
        /// Status line and header fields of the answer.
        let head: [UInt8]
    }

    private init(_ opening: Opening, hub: Hub, world: World, endsAt: UInt64) {
        user = opening.user
        slot = opening.slot
        inbox = opening.inbox
        kind = opening.kind
        self.hub = hub
        self.world = world
        self.endsAt = endsAt
    }

    /// Begins the stream on a connection. On the loop's thread.
    /// - Parameter done: called when it has begun, or can't.
    static func open(
        _ opening: Opening, on socket: TakenSocket, loop: StreamLoop, hub: Hub, world: World, done: @escaping @Sendable () -> Void
    ) {
        let session = EventStreamSession(
            opening, hub: hub, world: world, endsAt: loop.now + StreamLifetime.nanoseconds(world))
        let stream = loop.open(socket, owner: session)
        session.stream = stream
        stream.send(StreamBytes(opening.head + ServerSentEvents.retry(Limits.streamRetryMilliseconds)))
        hub.open(session)
        hub.subscribe(opening.inbox, opening.kind, session, lastEventID: opening.lastEventID) { result in
            done()
            switch result {
            case .success: if hub.isEnding { session.end(.restarting) }
            case .failure(let error):
                // It may have ended meanwhile.
                guard session.stream != nil else { return }
                // The head is on its way: the client comes back, as after any interruption.
                hub.noteUnreadable(error)
                session.end(.overloaded)
            }
        }
    }

    func deliver(_ batch: EventBatch) { stream?.send(batch.eventStream) }

    func end(_ reason: StreamEnd) {
        switch reason {
        case .restarting, .lifetime, .overloaded:
            // Everybody would come back in the same moment.
            let wait = Int64(world.random() % UInt64(Limits.streamReturnMilliseconds))
            stream?.finish(StreamBytes(ServerSentEvents.retry(wait)))
        case .expired, .revoked, .remote:
            // A client that reconnects with the same token gets a 401, which ends an EventSource for good.
            stream?.finish()
        }
    }

    func eventStream(_ stream: EventStream, endedWith reason: EventStreamEnd) {
        self.stream = nil
        hub.unsubscribe(inbox, kind, self)
        hub.close(self)
    }
}

/// The lifetime of a stream, varied by chance, so that streams that opened together don't end together.
enum StreamLifetime {
    static func nanoseconds(_ world: World) -> UInt64 {
        let range = Limits.streamLifetimeMilliseconds
        let spread = UInt64(range.upperBound - range.lowerBound)
        return (UInt64(range.lowerBound) + world.random() % spread) * 1_000_000
    }
}
