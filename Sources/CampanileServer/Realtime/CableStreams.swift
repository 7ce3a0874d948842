import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization

/// The cable's way into the hubs: each subscription is a listener in one of them.
final class CableStreams: CableAuthority {
    private let inboxes: StreamInboxes
    private let shards: [Realtime.Shard]
    private let seats: StreamSeats
    private let logger: Logger

    init(inboxes: StreamInboxes, shards: [Realtime.Shard], seats: StreamSeats, logger: Logger) {
        self.inboxes = inboxes
        self.shards = shards
        self.seats = seats
        self.logger = logger
    }

    func subscribe(
        to stream: CableStream, of owner: TurnOwner, listener: any StreamListener
    ) -> any StreamSubscription {
        let kind = stream.kind
        let subscription = CableSubscription(kind, listener, of: owner, in: shards.home(of: stream.user))
        do {
            if let known = try inboxes.known(stream.user, isRecorded: kind == .notifications) {
                // From the newest event of this moment on, whenever the hub comes to it.
                subscription.join(known.inbox, from: known.newest)
            } else {
                make(stream.user, for: subscription)
            }
        } catch {
            fail(error, listener)
        }
        return subscription
    }

    /// The first subscriber of an inbox begins with the events that are recorded from here on.
    private func make(_ user: UserKey, for subscription: CableSubscription) {
        Task { [self] in
            do {
                let inbox = try await inboxes.make(user, isRecorded: subscription.kind == .notifications)
                subscription.join(inbox, from: nil)
            } catch {
                fail(error, subscription.listener)
            }
        }
    }

    private func fail(_ error: any Error, _ listener: any StreamListener) {
        logger.warning("A cable's subscription can't be read now.", metadata: ["error": "\(error)"])
        listener.end(.overloaded)
    }

    func left(_ visitor: CableVisitor?) { seats.giveBack(visitor?.user) }
}

extension [Realtime.Shard] {
    /// Where all of a user's subscriptions on the cable are: what happens is read once for them, and they share the frames that
    /// are made of it.
    func home(of user: UserKey) -> Realtime.Shard { self[Int(UInt(bitPattern: user.hashValue) % UInt(count))] }
}

/// One subscription of a cable connection.
private final class CableSubscription: StreamSubscription {
    let kind: StreamKind
    let listener: any StreamListener
    private let owner: TurnOwner
    private let shard: Realtime.Shard
    /// The inbox that it listens to; written and read on the shard's thread only.
    private let inbox = Mutex<InboxID?>(nil)
    private let isCancelled = Atomic<Bool>(false)

    init(_ kind: StreamKind, _ listener: any StreamListener, of owner: TurnOwner, in shard: Realtime.Shard) {
        self.kind = kind
        self.listener = listener
        self.owner = owner
        self.shard = shard
    }

    func join(_ inbox: InboxID, from sequence: Int64?) {
        shard.hub.admit(owner) { [self] in
            guard !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
            do {
                try shard.hub.join(inbox, kind, listener, lastEventID: sequence.map(String.init))
                self.inbox.withLock { $0 = inbox }
            } catch {
                shard.hub.noteUnreadable(error)
                listener.end(.overloaded)
            }
        }
    }

    func cancel() {
        isCancelled.store(true, ordering: .sequentiallyConsistent)
        shard.loop.perform { [self] in
            guard let inbox = inbox.withLock({ $0 }) else { return }
            shard.hub.leave(inbox, kind, listener)
        }
    }
}
