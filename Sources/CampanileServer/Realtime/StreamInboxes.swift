import CampanileCore

/// The inboxes that streams listen to.
struct StreamInboxes: Sendable {
    let database: Store
    let world: World

    /// The user's inbox, made if there is none yet, and recorded from now on if its events are wanted. Mostly that is so
    /// already, and nothing is written.
    func find(_ user: User, isRecorded: Bool) async throws -> InboxID {
        let now = world.now()
        let ready = try await database.read { reading -> InboxID? in
            guard let inbox = try user.inbox(in: reading) else { return nil }
            guard isRecorded else { return inbox }
            return try reading.events.isListened(inbox, now: now) ? inbox : nil
        }
        return if let ready { ready } else { try await make(user.key, isRecorded: isRecorded) }
    }

    func make(_ user: UserKey, isRecorded: Bool) async throws -> InboxID {
        try await database.write(hints: [.user(app: user.app.text, userID: user.userID.text)]) { transaction in
            let inbox = try transaction.inboxes.making(app: user.app.text, userID: user.userID.text).id
            if isRecorded { try transaction.events.listen(inbox) }
            return inbox
        }
    }

    /// Gives the inbox, if there is one as it is wanted, and the newest of all events. Never waits: of a file they are given before
    /// this returns.
    func known(
        _ user: UserKey, isRecorded: Bool,
        then deliver: @escaping @Sendable (Result<(inbox: InboxID, newest: Int64)?, any Error>) -> Void
    ) {
        let now = world.now()
        database.snapshot(
            { reading in
                guard let inbox = try reading.inboxes.id(app: user.app.text, userID: user.userID.text),
                    try !isRecorded || reading.events.isListened(inbox, now: now)
                else { return nil }
                return (inbox, try reading.events.range(inbox: inbox).last)
            }, then: deliver)
    }
}
