import SQLEngine

extension MovedTable {
    static let departedDevices = MovedTable(
        name: "departed_devices",
        columns: MoveColumn.ints("device_id", "inbox_id") + MoveColumn.texts("token")
            + MoveColumn.ints("departed_at", "before_due_at") + MoveColumn.ids("before_id"),
        keyLength: 2,
        select: """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            WHERE (device_id, inbox_id) > ($1, $2) ORDER BY device_id, inbox_id LIMIT $3
            """,
        count: "SELECT count(*) FROM departed_devices",
        insert: "INSERT INTO departed_devices SELECT * FROM json_populate_recordset(NULL::departed_devices, $1::json)")

    static let leftTokens = MovedTable(
        name: "left_tokens",
        columns: MoveColumn.ints("id") + MoveColumn.texts("app", "token") + MoveColumn.ints("inbox_id", "left_at"),
        keyLength: 1,
        select: "SELECT id, app, token, inbox_id, left_at FROM left_tokens WHERE id > $1 ORDER BY id LIMIT $2",
        count: "SELECT count(*) FROM left_tokens",
        insert: "INSERT INTO left_tokens SELECT * FROM json_populate_recordset(NULL::left_tokens, $1::json)",
        sequence: (
            "SELECT coalesce(max(id), 0) FROM left_tokens",
            "SELECT setval(pg_get_serial_sequence('left_tokens', 'id'), greatest($1, 1), $1 > 0)"
        ))

    static let idempotencyKeys = MovedTable(
        name: "idempotency_keys",
        columns: MoveColumn.ints("api_key_id") + MoveColumn.texts("key") + MoveColumn.blobs("fingerprint")
            + MoveColumn.texts("location") + MoveColumn.blobs("answer") + MoveColumn.ints("created_at")
            + MoveColumn.blobs("made"),
        keyLength: 2,
        select: """
            SELECT api_key_id, key, fingerprint, location, iif(made IS NULL, answer, NULL), created_at, made FROM idempotency_keys
            WHERE (api_key_id, key) > ($1, $2) ORDER BY api_key_id, key LIMIT $3
            """,
        count: "SELECT count(*) FROM idempotency_keys",
        insert: "INSERT INTO idempotency_keys SELECT * FROM json_populate_recordset(NULL::idempotency_keys, $1::json)")

    static let largeCalls = MovedTable(
        name: "large_calls",
        columns: MoveColumn.ints("id")
            + MoveColumn.texts("app", "user_ids", "title", "body", "category", "deep_link", "data") + MoveColumn.bools("push")
            + MoveColumn.texts("sound", "collapse_key", "thread_id") + MoveColumn.ints("expires_at")
            + MoveColumn.texts("traceparent") + MoveColumn.ints("api_key_id") + MoveColumn.texts("key")
            + MoveColumn.blobs("fingerprint"),
        keyLength: 1,
        select: """
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint
            FROM large_calls WHERE id > $1 ORDER BY id LIMIT $2
            """,
        count: "SELECT count(*) FROM large_calls",
        insert: """
            INSERT INTO large_calls (id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint)
            SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                traceparent, api_key_id, key, fingerprint
            FROM json_populate_recordset(NULL::large_calls, $1::json)
            """,
        sequence: (
            "SELECT coalesce(max(id), 0) FROM large_calls",
            "SELECT setval(pg_get_serial_sequence('large_calls', 'id'), greatest($1, 1), $1 > 0)"
        ))

    static let largeCallParts = MovedTable(
        name: "large_call_parts", columns: MoveColumn.ints("call_id", "done") + MoveColumn.blobs("ids"), keyLength: 2,
        select: """
            SELECT call_id, done, ids FROM large_call_parts WHERE (call_id, done) > ($1, $2) ORDER BY call_id, done LIMIT $3
            """,
        count: "SELECT count(*) FROM large_call_parts",
        insert: "INSERT INTO large_call_parts SELECT * FROM json_populate_recordset(NULL::large_call_parts, $1::json)")

    static let revocations = MovedTable(
        name: "revocations", columns: MoveColumn.texts("app", "user_id") + MoveColumn.ints("not_before"), keyLength: 2,
        select: """
            SELECT app, user_id, not_before FROM revocations WHERE (app, user_id) > ($1, $2) ORDER BY app, user_id LIMIT $3
            """,
        count: "SELECT count(*) FROM revocations",
        insert: "INSERT INTO revocations SELECT * FROM json_populate_recordset(NULL::revocations, $1::json)")

    static let importedEntries = MovedTable(
        name: "imported_entries", columns: MoveColumn.texts("app", "external_id"), keyLength: 2,
        select: """
            SELECT app, external_id FROM imported_entries WHERE (app, external_id) > ($1, $2) ORDER BY app, external_id LIMIT $3
            """,
        count: "SELECT count(*) FROM imported_entries",
        insert: "INSERT INTO imported_entries SELECT * FROM json_populate_recordset(NULL::imported_entries, $1::json)")

    static let providerTokens = MovedTable(
        name: "provider_tokens",
        columns: MoveColumn.texts("team_id", "key_id", "fingerprint") + MoveColumn.ints("issued_at") + MoveColumn.texts("token"),
        keyLength: 3,
        select: """
            SELECT team_id, key_id, fingerprint, issued_at, token FROM provider_tokens
            WHERE (team_id, key_id, fingerprint) > ($1, $2, $3) ORDER BY team_id, key_id, fingerprint LIMIT $4
            """,
        count: "SELECT count(*) FROM provider_tokens",
        insert: "INSERT INTO provider_tokens SELECT * FROM json_populate_recordset(NULL::provider_tokens, $1::json)")
}
