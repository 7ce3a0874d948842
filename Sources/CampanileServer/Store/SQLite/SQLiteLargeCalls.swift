import CampanileCore
import SQLEngine

struct SQLiteLargeCalls<Access: SQLiteAccess>: SQLiteRepository, LargeCallReading {
    let access: Access

    func unfinished() throws -> [LargeCall] {
        let calls = try connection.all(
            """
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint
            FROM large_calls ORDER BY id
            """, map: largeCall)
        return try calls.map { call in
            var call = call
            call.made = try Array(
                connection.all("SELECT ids FROM large_call_parts WHERE call_id = ?1 ORDER BY done", call.id) {
                    [UUIDv7](all: $0.bytes(0)) ?? $0.substitute(0, "holds no ids", [])
                }.joined())
            return call
        }
    }

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
            return row.substitute(2, "holds no array", [])
        }
        return values.compactMap { value in
            guard case .string(let userID) = value else { return nil }
            return userID
        }
    }
}

extension SQLiteLargeCalls: LargeCallRepository where Access == Transaction {
    /// One process alone has the file.
    func take(_ id: Int64) throws -> LargeCall? { try unfinished().first { $0.id == id } }

    func delete(_ call: Int64) throws {
        _ = try transaction.connection.run("DELETE FROM large_calls WHERE id = ?1", call)
    }

    func withholdPushes() throws {
        _ = try transaction.connection.run("UPDATE large_calls SET push = 0")
    }
}
