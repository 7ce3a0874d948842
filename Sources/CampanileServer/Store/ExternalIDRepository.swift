import CampanileCore
import SQLEngine

private let takenByOneOf = SQLText(
    sqlite: """
        SELECT x.notification_id FROM json_each($3) u
        CROSS JOIN inboxes i ON i.app = $1 AND i.user_id = u.value
        CROSS JOIN external_ids x ON x.app = $1 AND x.external_id = $2 AND x.is_gone IN (FALSE, TRUE) AND x.inbox_id = i.id LIMIT 1
        """,
    postgres: """
        SELECT x.notification_id FROM inboxes i JOIN external_ids x ON x.inbox_id = i.id
        WHERE i.app = $1 AND i.user_id = ANY ($3) AND x.app = $1 AND x.external_id = $2 LIMIT 1
        """)

private let keptOfInbox = SQLText(
    sqlite: """
        SELECT notification_id FROM external_ids WHERE app = $1 AND external_id = $2 AND is_gone = FALSE AND inbox_id = $3
        """,
    postgres: """
        SELECT notification_id FROM external_ids
        WHERE app = $1 AND external_id = ANY ($2) AND is_gone = FALSE AND inbox_id = $3
        """)

/// The table `external_ids`: the producers' own names for notifications. One is unique for each user of an app, and stays taken when its
/// notification is gone. A transaction looks and notes under the inbox' lock.
struct ExternalIDRepository<Access: StoreAccess> {
    let access: Access

    /// The notification of any of these users that has or had an external id.
    func find(_ externalID: String, app: String, users: [String]) throws -> UUIDv7? {
        switch try access.connection {
        case .sqlite(let connection):
            let list = String(decoding: JSONValue.array(users.map { .string($0) }).text, as: UTF8.self)
            return try connection.first(takenByOneOf.sqlite, app, externalID, list) { $0.id(0) }
        case .postgres(let connection):
            return try connection.first(takenByOneOf.postgres, app, externalID, try PostgresArray(users)) { $0.id(0) }
        }
    }

    /// Looks whether any of these users has or had a notification with the external id of a new one, before the first is created.
    /// - Parameter isPartly: true if other users of the call have theirs already.
    /// - Throws: `ClientError` 409 when one has.
    func requireFree(_ new: NewNotification, _ users: ArraySlice<String>, isPartly: Bool = false, app: String) throws {
        guard let externalID = new.externalID else { return }
        if let holder = try find(externalID, app: app, users: Array(users)) {
            throw ClientError.externalIDTaken(by: holder, isPartly: isPartly)
        }
        if !isPartly, try access.importedEntries.has(app: app, externalID: externalID) {
            throw ClientError.externalIDTaken(by: nil)
        }
    }

    func isTaken(_ externalID: String, app: String) throws -> Bool {
        try access.connection.first(
            "SELECT 1 FROM external_ids WHERE app = $1 AND external_id = $2 LIMIT 1", app, externalID
        ) { _ in true } ?? false
    }

    /// The notifications of an inbox with any of these external ids.
    func notifications(named names: [String], app: String, inbox: InboxID) throws -> [UUIDv7] {
        switch try access.connection {
        case .sqlite(let connection):
            return try names.compactMap { try connection.first(keptOfInbox.sqlite, app, $0, inbox) { $0.id(0) } }
        case .postgres(let connection):
            return try connection.all(keptOfInbox.postgres, app, try PostgresArray(names), inbox) { $0.id(0) }
        }
    }

    /// The notifications with an external id that a producer may withdraw, and those of them that are gone and weren't noted as such.
    /// - Parameter producer: the name of its key.
    func holders(
        _ externalID: String, app: String, producer: String, limit: Int
    ) throws -> [(inbox: InboxID, notification: UUIDv7)] {
        try access.connection.all(
            """
            SELECT x.inbox_id, x.notification_id FROM external_ids x
            LEFT JOIN notifications n ON n.inbox_id = x.inbox_id AND n.id = x.notification_id
            LEFT JOIN api_keys k ON k.id = n.api_key_id
            WHERE x.app = $1 AND x.external_id = $2 AND x.is_gone = FALSE AND (n.api_key_id IS NULL OR k.name = $3)
            ORDER BY x.inbox_id LIMIT $4
            """, app, externalID, producer, limit
        ) { ($0.inbox(0), $0.id(1)) }
    }
}

extension ExternalIDRepository where Access == StoreTransaction {
    func insert(_ externalID: String, of notification: UUIDv7, app: String, inbox: InboxID) throws {
        try access.writingAlone.queue(
            "INSERT INTO external_ids (app, external_id, inbox_id, notification_id) VALUES ($1, $2, $3, $4)", app, externalID,
            inbox, notification)
    }

    /// As `insert`, unless the user has or had one, which another node may have made just now.
    /// - Returns: whether it was free.
    func take(_ externalID: String, for notification: UUIDv7, app: String, inbox: InboxID) throws -> Bool {
        try access.writingAlone.run(
            """
            INSERT INTO external_ids (app, external_id, inbox_id, notification_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
            """, app, externalID, inbox, notification) == 1
    }

    /// Notes that the notification is gone: nobody looks for it by the external id again, which stays taken.
    func setGone(_ externalID: String, app: String, inbox: InboxID) throws {
        try access.writing.queue(
            "UPDATE external_ids SET is_gone = TRUE WHERE app = $1 AND external_id = $2 AND is_gone = FALSE AND inbox_id = $3",
            app, externalID, inbox)
    }
}
