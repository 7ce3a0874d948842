import CampanileCore
import SQLEngine

/// The inboxes that streams listen to.
struct StreamInboxes: Sendable {
    let database: Database
    let world: World

    /// The user's inbox, made if there is none yet, and recorded from now on if its events are wanted. Mostly that is so
    /// already, and nothing is written.
    func find(_ user: User, isRecorded: Bool) async throws -> InboxID {
        let now = world.now()
        let ready = try database.read { connection -> InboxID? in
            guard let inbox = try user.inbox(in: connection) else { return nil }
            guard isRecorded else { return inbox }
            return try EventRepository.isListened(inbox, now: now, in: connection) ? inbox : nil
        }
        return if let ready { ready } else { try await make(user.key, isRecorded: isRecorded) }
    }

    func make(_ user: UserKey, isRecorded: Bool) async throws -> InboxID {
        try await database.write { transaction in
            let inbox = try InboxRepository.making(app: user.app.text, userID: user.userID.text, in: transaction).id
            if isRecorded { try EventRepository.listen(inbox, in: transaction) }
            return inbox
        }
    }

    /// The inbox, if there is one as it is wanted, and the newest of all events. Doesn't wait.
    func known(_ user: UserKey, isRecorded: Bool) throws -> (inbox: InboxID, newest: Int64)? {
        let now = world.now()
        return try database.snapshot { connection in
            guard let inbox = try InboxRepository.id(app: user.app.text, userID: user.userID.text, in: connection),
                try !isRecorded || EventRepository.isListened(inbox, now: now, in: connection)
            else { return nil }
            return (inbox, try EventRepository.range(inbox: inbox, in: connection).last)
        }
    }
}
