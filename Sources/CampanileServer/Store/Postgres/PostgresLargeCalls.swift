import CampanileCore
import SQLEngine

struct PostgresLargeCalls<Access: PostgresAccess>: PostgresRepository, LargeCallReading {
    let access: Access

    func unfinished() throws -> [LargeCall.Unfinished] {
        let calls = try connection.all(
            """
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint, takeovers
            FROM large_calls ORDER BY id
            """
        ) { LargeCall($0) }
        return try calls.map { call in
            return LargeCall.Unfinished(
                call: call, done: try zip(call.new.userIDs, parts(of: call.id)).map { Recipient(userID: $0, id: $1) })
        }
    }

    /// A node is listed before it begins its first call, and one statement sees both: who isn't listed has left.
    func holders() throws -> [LargeCall.Holder] {
        try connection.all(
            """
            SELECT c.id, c.takeovers, c.node_id, EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.node_id)
            FROM large_calls c ORDER BY c.id
            """
        ) { row in
            LargeCall.Holder(call: row.number(0), takeovers: row.number(1), node: row.idOrNil(2), isListed: row.bool(3))
        }
    }

    private func parts(of call: Int64) throws -> [UUIDv7] {
        let parts = try connection.all(
            "SELECT ids FROM large_call_parts WHERE call_id = $1 ORDER BY done", call, map: partIDs)
        return Array(parts.joined())
    }

    private func partIDs(_ row: borrowing PostgresRow) -> [UUIDv7] {
        let bytes = row.bytes(0)
        return stride(from: 0, to: bytes.count, by: 16).compactMap { start in
            UUIDv7(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + 16, bytes.count)]))
        }
    }
}

extension PostgresLargeCalls: LargeCallRepository where Access == PostgresStoreUnit {
    /// Of two nodes that look at the same moment the first gets a call.
    func takeOver(_ calls: [LargeCall.Holder], by node: UUIDv7) throws -> [LargeCall.Unfinished] {
        let taken = try Set(
            writing.all(
                """
                UPDATE large_calls SET node_id = $1, takeovers = takeovers + 1
                WHERE id IN (
                    SELECT c.id FROM unnest($2, $3) AS seen (id, takeovers)
                    JOIN large_calls c ON c.id = seen.id AND c.takeovers = seen.takeovers
                    ORDER BY c.id FOR NO KEY UPDATE OF c)
                RETURNING id
                """, node, try PostgresArray(calls.map(\.call)), try PostgresArray(calls.map(\.takeovers))
            ) { $0.number(0) })
        guard !taken.isEmpty else { return [] }
        let unfinished = try unfinished().filter { taken.contains($0.call.id) }
        for key in unfinished.compactMap(\.call.key) {
            // One that came from a SQLite file was under way in its process alone.
            try writing.queue(
                """
                INSERT INTO idempotency_keys (api_key_id, key, fingerprint, created_at) VALUES ($1, $2, $3, $4)
                ON CONFLICT (api_key_id, key) DO NOTHING
                """, key.producer, key.text, key.fingerprint, now)
        }
        return unfinished
    }

    func hold(_ call: LargeCall, after done: Int) throws -> [UUIDv7] {
        let isHeld = try writing.first(
            "SELECT 1 FROM large_calls WHERE id = $1 AND takeovers = $2 FOR NO KEY UPDATE", call.id, call.takeovers
        ) { _ in true }
        guard isHeld == true else { throw LargeCall.TakenOver() }
        return Array(try parts(of: call.id).dropFirst(done))
    }

    func insert(_ new: NewNotification, app: String, key: IdempotencyKey?, node: UUIDv7?) throws -> LargeCall {
        let (content, push) = (new.content, new.push)
        let userIDs = String(decoding: JSONValue.array(new.userIDs.map { .string($0) }).text, as: UTF8.self)
        let id = try writing.first(
            """
            INSERT INTO large_calls (app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id,
                expires_at, traceparent, api_key_id, key, fingerprint, node_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id
            """, app, userIDs, content.title, content.body, content.category, content.deepLink, content.data, push.push,
            push.sound, push.collapseKey, push.threadID, push.expiresAt, new.trace?.description, key?.producer, key?.text,
            key?.fingerprint, node
        ) { $0.number(0) }
        guard let id else { fatalError("INSERT … RETURNING returned nothing") }
        return LargeCall(id: id, new: new, app: app, key: key)
    }

    func add(_ part: [Recipient], to call: Int64, after done: Int) throws {
        try writing.queue(
            "INSERT INTO large_call_parts (call_id, done, ids) VALUES ($1, $2, $3)", call, done, part.flatMap(\.id.bytes))
    }

    func delete(_ call: Int64) throws {
        try writing.queue("DELETE FROM large_calls WHERE id = $1", call)
    }

    // MARK: A restore

    func withholdPushes() throws {
        _ = try writing.run("UPDATE large_calls SET push = false")
    }
}

extension LargeCall {
    fileprivate init(_ row: borrowing PostgresRow) {
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
        self.init(id: row.number(0), new: new, app: row.text(1), key: key, takeovers: row.number(17))
    }

    /// Only this program writes the column.
    private static func userIDs(_ row: borrowing PostgresRow) -> [String] {
        guard case .array(let values)? = try? JSONValue(parsing: row.blob(2)) else {
            return row.placeholder(2, "holds no array", [])
        }
        return values.compactMap { value in
            guard case .string(let userID) = value else { return nil }
            return userID
        }
    }
}
