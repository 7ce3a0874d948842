import CampanileCore
import SQLEngine

struct SQLiteLargeCalls<Access: SQLiteAccess>: SQLiteRepository, LargeCallReading {
    let access: Access

    func unfinished() throws -> [LargeCall.Unfinished] {
        let calls = try connection.all(
            """
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint
            FROM large_calls ORDER BY id
            """, map: largeCall)
        return try calls.map { call in
            let ids = try connection.all(
                "SELECT ids FROM large_call_parts WHERE call_id = ?1 ORDER BY done", call.id, map: partIDs
            ).joined()
            return LargeCall.Unfinished(
                call: call, done: zip(call.new.userIDs, ids).map { Recipient(userID: $0, id: $1) })
        }
    }

    func holders() -> [LargeCall.Holder] { [] }

    private func largeCall(_ row: borrowing Row) -> LargeCall {
        var new = NewNotification(
            userIDs: userIDs(row),
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
        return LargeCall(id: row.number(0), new: new, app: row.text(1), key: key)
    }

    /// Only this program writes the column.
    private func userIDs(_ row: borrowing Row) -> [String] {
        guard case .array(let values)? = try? JSONValue(parsing: row.blob(2)) else {
            return row.placeholder(2, "holds no array", [])
        }
        return values.compactMap { value in
            guard case .string(let userID) = value else { return nil }
            return userID
        }
    }

    private func partIDs(_ row: borrowing Row) -> [UUIDv7] {
        let bytes = row.bytes(0)
        return stride(from: 0, to: bytes.count, by: 16).compactMap { start in
            UUIDv7(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + 16, bytes.count)]))
        }
    }
}

extension SQLiteLargeCalls: LargeCallRepository where Access == Transaction {
    /// One process alone has the file.
    func takeOver(_ calls: [LargeCall.Holder], by node: UUIDv7) -> [LargeCall.Unfinished] { [] }
    func hold(_ call: LargeCall, after done: Int) -> [UUIDv7] { [] }

    func insert(_ new: NewNotification, app: String, key: IdempotencyKey?, node: UUIDv7?) throws -> LargeCall {
        let (content, push) = (new.content, new.push)
        let userIDs = String(decoding: JSONValue.array(new.userIDs.map { .string($0) }).text, as: UTF8.self)
        _ = try transaction.connection.run(
            """
            INSERT INTO large_calls (app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id,
                expires_at, traceparent, api_key_id, key, fingerprint)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
            """, app, userIDs, content.title, content.body, content.category, content.deepLink, content.data, push.push,
            push.sound, push.collapseKey, push.threadID, push.expiresAt, new.trace?.description, key?.producer, key?.text,
            key?.fingerprint)
        return LargeCall(id: transaction.connection.lastInsertRowID, new: new, app: app, key: key)
    }

    func add(_ part: [Recipient], to call: Int64, after done: Int) throws {
        _ = try transaction.connection.run(
            "INSERT INTO large_call_parts (call_id, done, ids) VALUES (?1, ?2, ?3)", call, done, part.flatMap(\.id.bytes))
    }

    func delete(_ call: Int64) throws {
        _ = try transaction.connection.run("DELETE FROM large_calls WHERE id = ?1", call)
    }

    func withholdPushes() throws {
        _ = try transaction.connection.run("UPDATE large_calls SET push = 0")
    }
}
