import CampanileCore
import HTTPEngine
import Logging
import Synchronization

/// The cable's way into the hubs: each subscription is a subscriber in one of them.
final class CableStreams: CableAuthority {
    private let inboxes: StreamInboxes
    private let shards: [Realtime.Shard]
    private let broadcasts: BroadcastHub
    private let quota: StreamQuota
    private let logger: Logger

    init(inboxes: StreamInboxes, shards: [Realtime.Shard], broadcasts: BroadcastHub, quota: StreamQuota, logger: Logger) {
        self.inboxes = inboxes
        self.broadcasts = broadcasts
        self.shards = shards
        self.quota = quota
        self.logger = logger
    }

    func subscribe(
        to stream: CableStream, from place: BroadcastPlace?, of owner: TurnOwner, subscriber: any Subscriber,
        begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) -> any StreamSubscription {
        switch stream {
        case .own(let own): broadcasts.listen(to: own, from: place, subscriber, begun: begun)
        case .inbox(let kind, let user): subscribe(to: kind, user, of: owner, subscriber, begun)
        }
    }

    private func subscribe(
        to kind: StreamKind, _ user: UserKey, of owner: TurnOwner, _ subscriber: any Subscriber,
        _ begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) -> any StreamSubscription {
        let subscription = CableSubscription(kind, subscriber, of: owner, in: shards.home(of: user))
        inboxes.known(user, isRecorded: kind == .notifications) { [self] known in
            begun(nil)
            switch known {
            // From the newest event of this moment on, whenever the hub comes to it.
            case .success(let known?): subscription.join(known.inbox, from: known.newest)
            case .success(nil): make(user, for: subscription)
            case .failure(let error): fail(error, subscriber)
            }
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
                fail(error, subscription.subscriber)
            }
        }
    }

    private func fail(_ error: any Error, _ subscriber: any Subscriber) {
        logger.warning("A cable's subscription can't be read now.", metadata: ["error": "\(error)"])
        subscriber.end(.overloaded)
    }

    func came(_ cableUser: CableUser?) { if let cableUser { broadcasts.attend(cableUser.user.app) } }

    func left(_ cableUser: CableUser?) {
        quota.giveBack(cableUser?.user)
        if let cableUser { broadcasts.leave(cableUser.user.app) }
    }
}

extension [Realtime.Shard] {
    /// Returns the shard of all of a user's subscriptions on the cable: what happens is read once for them, and they share the
    /// frames that are made of it.
    func home(of user: UserKey) -> Realtime.Shard { self[Int(UInt(bitPattern: user.hashValue) % UInt(count))] }
}

/// One subscription of a cable connection.
private final class CableSubscription: StreamSubscription {
    let kind: StreamKind
    let subscriber: any Subscriber
    private let owner: TurnOwner
    private let shard: Realtime.Shard
    /// The inbox that it listens to; written and read on the shard's thread only.
    private let inbox = Mutex<InboxID?>(nil)
    private let isCancelled = Atomic<Bool>(false)

    init(_ kind: StreamKind, _ subscriber: any Subscriber, of owner: TurnOwner, in shard: Realtime.Shard) {
        self.kind = kind
        self.subscriber = subscriber
        self.owner = owner
        self.shard = shard
    }

    func join(_ inbox: InboxID, from sequence: Int64?) {
        shard.hub.admit(owner) { [self] done in
            guard !isCancelled.load(ordering: .sequentiallyConsistent) else { return done() }
            self.inbox.withLock { $0 = inbox }
            shard.hub.subscribe(inbox, kind, subscriber, lastEventID: sequence.map(String.init)) { [self] result in
                done()
                guard case .failure(let error) = result, !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
                shard.hub.noteUnreadable(error)
                subscriber.end(.overloaded)
            }
        }
    }

    func cancel() {
        isCancelled.store(true, ordering: .sequentiallyConsistent)
        shard.loop.perform { [self] in
            guard let inbox = inbox.withLock({ $0 }) else { return }
            shard.hub.unsubscribe(inbox, kind, subscriber)
        }
    }
}
