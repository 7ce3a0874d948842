import CampanileCore
import SQLEngine

@testable import CampanileServer

/// A SQLite file with rows in every table, and a way to compare it with what arrives in PostgreSQL.
enum MoveSample {
    /// More notifications than go in one transaction; every column has a value of its own.
    static func fill(_ store: Store) throws {
        try store.sqlite.writeBlocking { transaction in
            try transaction.connection.script(users)
            for number in 0..<5_000 { try insert(number, transaction.connection) }
            try transaction.connection.script(operations)
        }
    }

    private static func insert(_ number: Int, _ connection: Connection) throws {
        func every(_ step: Int, _ text: String) -> String? { number % step == 0 ? text : nil }
        _ = try connection.run(
            """
            INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body, category, deep_link, data, data_aside, push,
                sound, collapse_key, thread_id, expires_at, payload)
            VALUES (3, $1, $2, NULL, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
            """, UUIDv7(high: 0x0190_0000_0000_7001, low: 0x8000_0000_0000_0000 + UInt64(number)), 1_000 + number,
            "title \(number)",
            "body äöü € \\ \" \t\u{1} \(number)", every(2, "category"), every(3, "deep/link"),
            number == 7 ? nil : #"{"a":"\u0000"}"#, number == 7, number % 5 != 0, every(7, "sound"), every(11, "collapse"),
            every(13, "thread"), number % 17 == 0 ? number : nil, every(19, "{}"))
    }

    private static let users = """
        INSERT INTO inboxes (id, app, user_id, unread_count, unread_since_cleared, armed, version, updated_at, cleared_id, newest_id,
            unread_from, listened_until, listened_from, uncounted, badge_policy, given_count) VALUES
            (3, 'shop', 'alice', 5000, 4990, 1, 1700000001013, 1014, x'01900000000070018000000000000009',
                x'01900000000070018000000000001387', x'01900000000070018000000000000000', 9000000001015, 16, 3, 'given', 7),
            (4, 'default', 'bob "quoted" äöü €', 0, 0, 0, 1700000002013, NULL, NULL, NULL, NULL, 0, 25, 0, 'since_opened', 0);
        INSERT INTO tenant_badges VALUES (3, '', 2, -5), (3, 'acme', 5, 9000000000000000001);
        INSERT INTO app_policies VALUES ('shop', 'given');
        INSERT INTO broadcast_series VALUES ('shop', 'e1', 9, 3, 2, 1004, 123);
        INSERT INTO broadcast_streams VALUES ('shop', 'messages', 3, 1003);
        INSERT INTO broadcasts VALUES ('shop', 8, 'messages', 'id-1', 'sid', 20, 1005, '"x"'), ('shop', 9, 'a', NULL, NULL, 12, 1006, '"y"');
        INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body)
            VALUES (4, x'01900000000070018000000000ffffff', 5, 6, 'a' || char(0) || 'b', '');
        INSERT INTO notification_data VALUES (x'01900000000070018000000000000007', '{"large":true}');
        INSERT INTO external_ids VALUES ('shop', 'order-1', 0, 3, x'01900000000070018000000000000001'),
            ('shop', 'order-2', 1, 3, x'01900000000070018000000000000002');
        UPDATE notifications SET external_id = 'order-1', api_key_id = 7, edited_at = 99
            WHERE id = x'01900000000070018000000000000001';
        INSERT INTO notification_payloads VALUES (x'01900000000070018000000000000013', '{"buttons":"LARGE"}');
        INSERT INTO device_tokens (id, app, token, inbox_id, platform, provider, environment, app_version, locale, created_at,
            last_registered_at, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease, sending_id, busy_until,
            seen_at, dismissals, emptied_at, synced_at) VALUES
            (51, 'shop', 'token', 3, 'ios', 'apns', 'sandbox', '5.2', 'de', 1052, 1053, 54, 1055, 1, 1056, 57, 1058, 0, NULL, 1060, 1063,
                '01900000-0000-7001-8000-000000000002;', 1064, 1065),
            (52, 'shop', 'other', 3, 'android', 'fcm', 'production', NULL, NULL, 2052, 2053, NULL, NULL, 0, NULL, 0, NULL, 2,
                x'01900000000070018000000000000003', NULL, NULL, NULL, NULL, NULL);
        INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, token, answers, reason,
            traceparent) VALUES
            (x'01900000000070018000000000000001', 51, x'01900000000070019000000000000002', 3, 'owed', 61, 1058, NULL, NULL, NULL, 'without_link', 'trace'),
            (x'01900000000070018000000000000002', 60, x'01900000000070019000000000000003', 3, 'gone', 1, NULL, 71, 'gone token', '[{"status":410}]', NULL, NULL),
            (x'01900000000070018000000000000003', 52, x'01900000000070019000000000000004', 3, 'sending', 2, NULL, NULL, NULL, NULL, NULL, NULL),
            (x'01900000000070018000000000000004', 0, x'01900000000070019000000000000005', 3, 'superseded', 0, NULL, 72, NULL, NULL, 'no_devices', NULL);
        INSERT INTO events (sequence, inbox_id, type, notification_id, created_at) VALUES
            (17, 3, 'listening', NULL, 81), (18, 3, 'created', x'01900000000070018000000000000001', 82), (25, 4, 'listening', NULL, 83),
            (26, 3, 'badge', NULL, 84);
        UPDATE sqlite_sequence SET seq = 40 WHERE name = 'events';
        UPDATE sqlite_sequence SET seq = 60 WHERE name = 'device_tokens';
        """

    private static let operations = """
        INSERT INTO departed_devices VALUES (60, 3, 'gone token', 91, 92, x'01900000000070018000000000000002');
        INSERT INTO left_tokens VALUES (5, 'shop', 'gone token', 3, 93);
        INSERT INTO api_keys VALUES (1, 'old', 'shop', x'0102', 95, 96, 'producer'), (2, 'new', 'shop', x'0103', 97, NULL, 'operate');
        INSERT INTO idempotency_keys VALUES (2, 'key', x'04', '/notifications/x', x'7b7d', 98, NULL, NULL),
            (2, 'other', x'', NULL, x'', 99, NULL, NULL),
            (2, 'under way', x'06', NULL, x'', 100, x'01900000000070018000000000000004', x'0a');
        INSERT INTO large_calls VALUES (6, 'shop', '["alice"]', 't', 'b', 'c', 'd', '{}', 1, 's', 'k', 'i', 101, 'trace', 2, 'key', x'05');
        INSERT INTO large_call_parts VALUES (6, 0, x'01900000000070018000000000000008');
        INSERT INTO revocations VALUES ('shop', 'alice', 102);
        INSERT INTO imported_entries VALUES ('shop', 'external 1'), ('shop', 'external 2');
        INSERT INTO provider_tokens VALUES ('team', 'key', 'print', 103, 'secret');
        UPDATE program_state SET starts = 9, versions_from = 104, retained_at = 105, doubted_at = NULL, badge_policy = 'unread',
            stream_token_key = x'0a0b', events_purged_through = 12;
        """

    // MARK: - Comparing

    /// Both stores' answers to the same statement. `kinds` has a letter for each column: i(nteger), b(oolean), t(ext), x (bytes).
    static func answers(_ store: Store, _ sql: SQL, _ kinds: String) throws -> [String] {
        var lines: [String] = []
        switch store.base {
        case .sqlite(let database):
            try database.read { connection in
                try connection.forEach(sql) { row in
                    var words: [String] = []
                    for (index, kind) in kinds.enumerated() {
                        let column = Int32(index)
                        words.append(
                            row.isNull(column)
                                ? "NULL"
                                : kind == "i"
                                    ? "\(row.int(column))"
                                    : kind == "b"
                                        ? "\(row.bool(column))"
                                        : kind == "t" ? row.text(column) : Hex.encode(row.bytes(column)))
                    }
                    lines.append(words.joined(separator: "|"))
                }
            }
        case .postgres(let database):
            try database.survey { connection in
                try connection.forEach(sql) { row in
                    var words: [String] = []
                    for (index, kind) in kinds.enumerated() {
                        let column = Int32(index)
                        words.append(
                            row.isNull(column)
                                ? "NULL"
                                : kind == "i"
                                    ? "\(row.int(column))"
                                    : kind == "b"
                                        ? "\(row.bool(column))"
                                        : kind == "t" ? row.text(column) : Hex.encode(row.bytes(column)))
                    }
                    lines.append(words.joined(separator: "|"))
                }
            }
        }
        return lines
    }

    struct Question: Sendable {
        let sql: SQL
        let kinds: String
    }

    /// Every column that both stores have under the same name, but `notifications.data`, which SQLite keeps in two places.
    static let questions = [
        Question(
            sql: """
                SELECT id, app, user_id, unread_count, unread_since_cleared, armed, version, updated_at, cleared_id, newest_id,
                    unread_from, listened_until, listened_from, uncounted, badge_policy, given_count FROM inboxes ORDER BY id
                """, kinds: "ittiibiixxxiiiti"),
        Question(sql: "SELECT inbox_id, tenant, count, sequence FROM tenant_badges ORDER BY tenant", kinds: "itii"),
        Question(
            sql:
                "SELECT app, epoch, last_sequence, dropped_through, forgotten_through, forgotten_at, bytes FROM broadcast_series",
            kinds: "ttiiiii"),
        Question(sql: "SELECT app, stream, dropped_through, dropped_at FROM broadcast_streams", kinds: "ttii"),
        Question(
            sql: "SELECT app, sequence, stream, id, message, except_sid, bytes, created_at FROM broadcasts ORDER BY sequence",
            kinds: "tittttii"),
        Question(sql: "SELECT app, badge_policy FROM app_policies", kinds: "tt"),
        Question(
            sql: """
                SELECT inbox_id, id, created_at, read_at, body, category, deep_link, push, sound, collapse_key, thread_id, expires_at,
                    external_id, api_key_id, edited_at
                FROM notifications ORDER BY inbox_id, id
                """, kinds: "ixiitttbtttitii"),
        Question(
            sql: "SELECT app, external_id, is_gone, inbox_id, notification_id FROM external_ids ORDER BY app, external_id",
            kinds: "ttbix"),
        Question(
            sql: """
                SELECT id, app, token, inbox_id, platform, provider, environment, app_version, locale, created_at,
                    last_registered_at, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease, sending_id,
                    busy_until, seen_at, dismissals, emptied_at, synced_at FROM device_tokens ORDER BY id
                """, kinds: "ittitttttiiiibiiiixiitii"),
        Question(
            sql: """
                SELECT notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, token, answers, reason, traceparent
                FROM deliveries ORDER BY notification_id, device_id
                """, kinds: "xixitiiitttt"),
        Question(
            sql: "SELECT sequence, inbox_id, type, notification_id, created_at FROM events ORDER BY sequence", kinds: "iitxi"),
        Question(
            sql: "SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices", kinds: "iitiix"
        ),
        Question(sql: "SELECT id, app, token, inbox_id, left_at FROM left_tokens", kinds: "ittii"),
        Question(sql: "SELECT id, name, app, hash, created_at, revoked_at, kind FROM api_keys ORDER BY id", kinds: "ittxiit"),
        Question(
            sql: """
                SELECT api_key_id, key, fingerprint, location, CASE WHEN made IS NULL THEN answer END, created_at, made
                FROM idempotency_keys ORDER BY key
                """, kinds: "itxtxix"),
        Question(
            sql: """
                SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at,
                    traceparent, api_key_id, key, fingerprint FROM large_calls
                """, kinds: "itttttttbtttititx"),
        Question(sql: "SELECT call_id, done, ids FROM large_call_parts", kinds: "iix"),
        Question(sql: "SELECT app, user_id, not_before FROM revocations", kinds: "tti"),
        Question(sql: "SELECT app, external_id FROM imported_entries ORDER BY external_id", kinds: "tt"),
        Question(sql: "SELECT team_id, key_id, fingerprint, issued_at, token FROM provider_tokens", kinds: "tttit"),
        Question(
            sql: "SELECT starts, versions_from, retained_at, doubted_at, badge_policy, stream_token_key FROM program_state",
            kinds: "iiiitx"),
    ]
}
