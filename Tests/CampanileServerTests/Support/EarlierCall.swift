import CampanileCore
import SQLEngine

@testable import CampanileServer

/// A call for many users as a program before schema 17 (PostgreSQL's 3) left it: written down, with some of its users served.
enum EarlierCall {
    /// Serves the first of the users, and writes the call down.
    /// - Parameter node: who has it under way.
    /// - Returns: the ids that were made.
    @discardableResult
    static func leave(
        _ new: NewNotification, served: Int, app: String = "default", key: IdempotencyKey? = nil, node: UUIDv7? = nil,
        _ publisher: Publisher
    ) async throws -> [UUIDv7] {
        let first = NewNotification(
            userIDs: Array(new.userIDs.prefix(served)), content: new.content, push: new.push, isForMany: true)
        let made = try await publisher.publish(first, app: app).map(\.id)
        try write(new, app: app, key: key, node: node, parts: [(0, made)], publisher.database)
        return made
    }

    /// Writes the call down.
    /// - Parameter parts: for how many users the earlier parts are, and what was made.
    static func write(
        _ new: NewNotification, app: String, key: IdempotencyKey?, node: UUIDv7? = nil, parts: [(done: Int, ids: [UUIDv7])],
        _ store: Store
    ) throws {
        switch store.base {
        case .sqlite(let database):
            try database.writeBlocking { try write(new, app, key, parts, $0.connection) }
        case .postgres(let database):
            try database.writeBlocking { unit in
                unit.noteChange()
                try write(new, app, key, node, parts, unit)
            }
        }
    }

    private static func userIDs(_ new: NewNotification) -> String {
        String(decoding: JSONValue.array(new.userIDs.map { .string($0) }).text, as: UTF8.self)
    }

    private static func write(
        _ new: NewNotification, _ app: String, _ key: IdempotencyKey?, _ parts: [(done: Int, ids: [UUIDv7])],
        _ connection: Connection
    ) throws {
        let (content, push) = (new.content, new.push)
        _ = try connection.run(
            """
            INSERT INTO large_calls (app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id,
                expires_at, traceparent, api_key_id, key, fingerprint)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
            """, app, userIDs(new), content.title, content.body, content.category, content.deepLink, content.data, push.push,
            push.sound, push.collapseKey, push.threadID, push.expiresAt, new.trace?.description, key?.producer, key?.text,
            key?.fingerprint)
        let call = connection.lastInsertRowID
        for part in parts {
            _ = try connection.run(
                "INSERT INTO large_call_parts (call_id, done, ids) VALUES ($1, $2, $3)", call, part.done,
                part.ids.flatMap(\.bytes))
        }
    }

    private static func write(
        _ new: NewNotification, _ app: String, _ key: IdempotencyKey?, _ node: UUIDv7?, _ parts: [(done: Int, ids: [UUIDv7])],
        _ unit: PostgresStoreUnit
    ) throws {
        let (content, push, connection) = (new.content, new.push, unit.plainConnection)
        let call = try connection.first(
            """
            INSERT INTO large_calls (app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id,
                expires_at, traceparent, api_key_id, key, fingerprint, node_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id
            """, app, userIDs(new), content.title, content.body, content.category, content.deepLink, content.data, push.push,
            push.sound, push.collapseKey, push.threadID, push.expiresAt, new.trace?.description, key?.producer, key?.text,
            key?.fingerprint, node
        ) { $0.int(0) }
        for part in parts {
            _ = try connection.run(
                "INSERT INTO large_call_parts (call_id, done, ids) VALUES ($1, $2, $3)", call, part.done,
                part.ids.flatMap(\.bytes))
        }
        if let key {
            _ = try connection.run(
                "INSERT INTO idempotency_keys (api_key_id, key, fingerprint, created_at) VALUES ($1, $2, $3, $4)", key.producer,
                key.text, key.fingerprint, unit.now)
        }
    }
}
