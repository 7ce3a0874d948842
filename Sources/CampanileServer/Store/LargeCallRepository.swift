import CampanileCore
import SQLEngine

/// The tables `large_calls` and `large_call_parts`, which only older programs fill.
struct LargeCallRepository<Access: StoreAccess> {
    let access: Access

    /// The oldest first.
    ///
    /// On PostgreSQL a node is listed before it begins its first call, and one statement sees both: who isn't listed has left.
    func unfinished() throws -> [LargeCall] {
        let connection = try access.connection
        let calls = try connection.all(
            """
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, coalesce(
                    (SELECT min(o.id) FROM api_keys k JOIN api_keys o ON o.name = k.name AND o.app = k.app WHERE k.id = c.api_key_id),
                    c.api_key_id), key, fingerprint,
                \(SQLText(sqlite: "NULL, false", postgres: "node_id, EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.node_id)"))
            FROM large_calls c ORDER BY id
            """
        ) { LargeCall($0) }
        return try calls.map { call in
            var call = call
            call.made = try Array(
                connection.all("SELECT ids FROM large_call_parts WHERE call_id = $1 ORDER BY done", call.id) {
                    [UUIDv7](all: $0.bytes(0)) ?? $0.substitute(0, "holds no ids", [])
                }.joined())
            return call
        }
    }
}

extension LargeCallRepository where Access == StoreTransaction {
    /// Keeps everybody else from going on with the call, until the transaction ends: an older program's node looks for the row first,
    /// and does nothing more when it is gone.
    /// - Returns: how far it is; nil: it is done.
    func take(_ id: Int64) throws -> LargeCall? {
        try access.unit?.writing.queue("SELECT 1 FROM large_calls WHERE id = $1 FOR UPDATE", id)
        return try unfinished().first { $0.id == id }
    }

    /// The call is done: its parts go with it.
    func delete(_ call: Int64) throws {
        try access.writing.queue("DELETE FROM large_calls WHERE id = $1", call)
    }

    /// Keeps what is still to be created from being pushed.
    func withholdPushes() throws {
        try access.writing.run("UPDATE large_calls SET push = $1", false)
    }
}

extension LargeCall {
    fileprivate init(_ row: borrowing AnyRow) {
        var new = NewNotification(
            userIDs: LargeCall.userIDs(row),
            content: NotificationContent(
                title: row.text(3), body: row.text(4), category: row.textOrNil(5), deepLink: row.textOrNil(6),
                data: row.textOrNil(7)),
            push: PushRequestOptions(
                push: row.bool(8), sound: row.textOrNil(9), collapseKey: row.textOrNil(10), threadID: row.textOrNil(11),
                expiresAt: row.timeOrNil(12)),
            isForMany: true)
        new.trace = row.textOrNil(13).flatMap { TraceParent($0) }
        let key =
            row.isNull(14)
            ? nil : IdempotencyKey(text: row.text(15), producer: APIKeyID(row.number(14)), fingerprint: row.blob(16))
        self.init(id: row.number(0), new: new, app: row.text(1), key: key, node: row.idOrNil(17), isListed: row.bool(18))
    }

    /// Only this program writes the column.
    private static func userIDs(_ row: borrowing AnyRow) -> [String] {
        guard case .array(let values)? = try? JSONValue(parsing: row.blob(2)) else {
            return row.substitute(2, "holds no array", [])
        }
        return values.compactMap { value in
            guard case .string(let userID) = value else { return nil }
            return userID
        }
    }
}
