import CSQLite
import CampanileCore
import Foundation
import Testing

@testable import CampanileServer
@testable import SQLEngine

/// The plans that SQLite makes for every statement of the program, on a database that is filled. A test of the answers can't see
/// that an index doesn't serve: they are the same without it, only later the more there is.
@Suite("Query plans")
struct QueryPlanTests {
    /// Statements that walk a table or sort, each with the reason why that is no harm.
    private static let reasons: [String: String] = [
        "SELECT n.id, d.device_id, d.settled_at": "the hundred newest that the statement in it finds",
        "SELECT id FROM inboxes ORDER BY id": "the badge audit, and a start under another policy",
        "SELECT id, name, app, created_at, revoked_at, kind FROM api_keys ORDER BY id": "`keys list`",
        "SELECT app, provider, platform, environment, condition, reason, since FROM lane_part_conditions ORDER BY app, provider, platform, environment":
            "a row for each stopped part",
        "SELECT app, user_id, not_before FROM revocations WHERE not_before > $1":
            "users that an operator signed out, after a change",
        "SELECT count(*), count(*) FILTER (WHERE unread_count > 0), CAST(coalesce(sum(unread_count), 0) AS bigint) FROM inboxes":
            "`stats` counts all",
        "SELECT app, provider, kind, count(*) FROM device_tokens GROUP BY": "`stats` counts all",
        "SELECT CASE WHEN p.token IS NULL THEN d.state ELSE 'gone' END AS told, count(*) FROM deliveries d":
            "`stats`, of an hour",
        "SELECT count(*) FROM inboxes WHERE badge_policy = 'given'": "the badge audit",
        "SELECT app, badge_policy FROM app_policies ORDER BY app": "a start: the apps that the configuration names",
        "SELECT app FROM broadcast_series ORDER BY app": "housekeeping: a row for each app",
        "SELECT app, last_sequence FROM broadcast_series ORDER BY app": "a row for each app",
        "SELECT 1 FROM departed_devices LIMIT 1": "limited",
        "SELECT id, app, user_ids, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at, traceparent, coalesce( (SELECT min(o.id) FROM api_keys k JOIN api_keys o ON o.name = k.name AND o.app = k.app WHERE k.id = c.api_key_id), c.api_key_id), key, fingerprint, NULL, false FROM large_calls c ORDER BY id":
            "a start: the few that were under way when the last ended",
        "UPDATE large_calls SET push = $1": "a restore",
        "SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices ORDER BY device_id, inbox_id LIMIT 1":
            "limited",
        "SELECT max(listened_from, coalesce((SELECT events_purged_through FROM program_state WHERE id = 1), 0)),":
            "a row for each table that has sequences",
        "SELECT seq FROM sqlite_sequence WHERE name = 'events'": "a row for each table that has sequences",
        "UPDATE sqlite_sequence SET seq = $1 WHERE name = 'events'": "a row for each table that has sequences",
        "DELETE FROM events": "a restore takes all of them",
        "UPDATE inboxes SET version = $1, updated_at = CASE": "a restore, which no server waits for",
        "SELECT max(version), max(updated_at) FROM inboxes":
            "a restore, and the first run of retention, beside the readers of the server",
        "UPDATE deliveries SET state = 'superseded', reason = $1": "a restore",
        "UPDATE device_tokens SET told_count = NULL, told_at = NULL": "a restore",
        "UPDATE device_tokens SET due_at = NULL, badge_due_at = NULL": "a restore",
        "SELECT max(sequence), count(*) FROM (SELECT sequence, created_at FROM events ORDER BY sequence LIMIT $2)": "limited",
        "SELECT count(*) FROM (SELECT 1 FROM device_tokens WHERE app = $1 LIMIT $2)": "limited",
        "SELECT count(*), count(*) FILTER (WHERE i.cleared_id IS NULL OR n.id > i.cleared_id), count(*) FILTER (WHERE n.id < i.unread_from) FROM notifications n":
            "the badge audit counts anew on purpose",
        "SELECT \(Device.columns.sqlite) FROM device_tokens d WHERE d.inbox_id = $1": "a user has 50 devices at most",
        "SELECT count(*) FROM device_tokens WHERE inbox_id = $1 AND last_registered_at >= $2": "a user has 50 devices at most",
        "SELECT id FROM device_tokens WHERE inbox_id = $1": "a user has 50 devices at most",
        "SELECT i.id, i.version, (SELECT max(e.sequence)":
            "walks the list that it is given; the greatest sequence is the last entry of the inbox in the index",
        "SELECT 1 FROM (SELECT collapse_key, push FROM notifications": "limited",
        "SELECT d.device_id, CASE WHEN count(*) = count(d.settled_at)":
            "a part of an inbox that one transaction marks, grouped by at most 50 devices",
        "SELECT x.notification_id FROM json_each($3) u": "walks the list that it is given",
        "SELECT (SELECT count(*) || ' ' || ifnull(max(id), 0)":
            "the tables of keys and revocations are small; only nodes ask, on PostgreSQL",
        "SELECT token, platform, provider, environment, app_version, locale, last_registered_at, kind, CASE WHEN seen_at":
            "a user has 50 devices at most",
        "SELECT token, platform, provider, environment, app_version, locale, last_registered_at, kind FROM device_tokens WHERE inbox_id = $1":
            "a user has 50 devices at most",
    ]

    @Test("no statement walks a table, or all that an inbox or a device has, or sorts, but those that are known to and why")
    func nothingWalks() throws {
        let statements = try Self.statements()
        var unused = Set(Self.reasons.keys)
        try Self.onFilledDatabase { connection in
            for statement in statements {
                let plan = try Self.plan(of: statement, on: connection)
                guard Self.walks(plan) else { continue }
                let known = Self.reasons.keys.first { statement.hasPrefix($0) }
                if let known { unused.remove(known) }
                #expect(known != nil, "\(statement): \(plan)")
            }
        }
        #expect(unused.isEmpty, "these have become good: \(unused.sorted())")
    }

    /// Of what there may be very much for one inbox, device or app, the name of that one alone finds too much.
    private static func walks(_ plan: [String]) -> Bool {
        plan.contains {
            $0.hasPrefix("SCAN") || $0.contains("TEMP B-TREE")
                || $0.contains(
                    /^SEARCH (notifications|n|deliveries|d|a|f|events|e|device_tokens|t) .*\((inbox_id|device_id|app)=\?\)$/)
        }
    }

    @Test(
        "what is asked of an inbox goes by a key or an index, to the last column that is asked for",
        arguments: [
            ("WHERE inbox_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3", "PRIMARY KEY (inbox_id=? AND id<?)"),
            ("AND id >= $4 AND ($5 = 'all' OR", "PRIMARY KEY (inbox_id=? AND id>? AND id<?)"),
            ("AND id >= $3 ORDER BY id DESC LIMIT 1 OFFSET $4", "PRIMARY KEY (inbox_id=? AND id>? AND id<?)"),
            ("AND id <= $3 ORDER BY id LIMIT 1 OFFSET $4", "PRIMARY KEY (inbox_id=? AND id>? AND id<?)"),
            ("SET read_at = $4 WHERE inbox_id = $1 AND id >= $2", "PRIMARY KEY (inbox_id=? AND id>? AND id<?)"),
            ("SET read_at = $3 WHERE inbox_id = $1 AND id = $2", "PRIMARY KEY (inbox_id=? AND id=?)"),
            ("WHERE device_id = $1 AND notification_id IN", "PRIMARY KEY (notification_id=? AND device_id=?)"),
            ("DELETE FROM idempotency_keys", "INDEX idempotency_keys_created (created_at<?)"),
            ("DELETE FROM deliveries WHERE notification_id >= $1", "PRIMARY KEY (notification_id>? AND notification_id<?)"),
            ("DELETE FROM notifications WHERE inbox_id = $1 AND id <= $2", "PRIMARY KEY (inbox_id=? AND id<?)"),
            ("AND id > $2 AND created_at >= $3 ORDER BY id LIMIT 1", "PRIMARY KEY (inbox_id=? AND id<?)"),
            ("AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3", "PRIMARY KEY (inbox_id=? AND id<?)"),
            ("ORDER BY a.due_at, a.notification_id LIMIT 1", "INDEX deliveries_owed (device_id=? AND due_at<?)"),
            (
                "WHERE (d.notification_id, d.device_id) < ($1, $2)",
                "PRIMARY KEY (notification_id>? AND (notification_id,device_id)<(?,?))"
            ),
            ("WHERE d.state = $3 AND", "INDEX deliveries_unsuccessful (state=? AND (notification_id,device_id)<(?,?))"),
            (
                "SELECT t.app, t.provider, count(*), min(o.notification_id)",
                "COVERING INDEX deliveries_owed (device_id>? AND device_id<?)"
            ),
            (
                "(due_at, notification_id) < ($2, $3)",
                "COVERING INDEX deliveries_owed (device_id=? AND due_at>? AND (due_at,notification_id)<(?,?))"
            ),
            ("device_id BETWEEN $2 AND $3 AND due_at > $1", "COVERING INDEX deliveries_owed (device_id>? AND device_id<?)"),
            ("WHERE id BETWEEN $2 AND $3 AND (due_at > $1", "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            ("FROM events WHERE inbox_id = $1", "INDEX events_inbox (inbox_id=? AND sequence>?)"),
        ])
    func inboxes(_ text: String, _ expected: String) throws {
        let found = try Self.statements().filter { $0.contains(text) }
        #expect(!found.isEmpty, "no statement contains \(text)")
        try Self.onFilledDatabase { connection in
            for statement in found {
                let plan = try Self.plan(of: statement, on: connection)
                // The first line: a subquery that goes well says nothing of the statement itself.
                #expect(plan.first?.hasSuffix(expected) == true, "\(statement): \(plan)")
            }
        }
    }

    @Test("the search for statements finds them, and a walk is seen as one")
    func control() throws {
        let statements = try Self.statements()
        #expect(statements.count > 80)
        #expect(statements.contains("DELETE FROM device_tokens WHERE id = $1"))
        try Self.onFilledDatabase { connection in
            let walk = try Self.plan(of: "SELECT id FROM notifications WHERE title = $1", on: connection)
            #expect(walk == ["SCAN notifications"])
            // What the count of unread notifications was once, and `status=unread`: no index served them.
            for column in ["count(*)", "id"] {
                let inbox = try Self.plan(
                    of: "SELECT \(column) FROM notifications WHERE inbox_id = $1 AND read_at IS NULL", on: connection)
                #expect(Self.walks(inbox), "\(inbox)")
            }
            let page = try Self.plan(
                of: "SELECT id FROM notifications WHERE inbox_id = $1 AND id < $2 ORDER BY id DESC LIMIT 9", on: connection)
            #expect(!Self.walks(page), "\(page)")
            // A list of pairs is held against every row that has the first of them.
            let list =
                "DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (SELECT api_key_id, key FROM idempotency_keys LIMIT 9)"
            let partly = try Self.plan(of: list, on: connection)
            #expect(partly.first == "SEARCH idempotency_keys USING PRIMARY KEY (api_key_id=?)")
        }
    }

    // MARK: - How it is done

    /// The words that only PostgreSQL knows. A statement without any of them that SQLite can't prepare fails the tests.
    private static let onlyPostgres = [
        "FOR UPDATE", "FOR NO KEY UPDATE", "DISTINCT ON", "unnest(", "concat_ws(", "to_regclass(", "node_id", "= ANY (",
        "current_database()", "SET revocations =", "::smallint",
    ]

    /// The expressions that stand between the literals of a statement, beside the constants of its own file, each with its text.
    private static let parts: [String: String] = [
        "AnsweredDevice.columns": "\(AnsweredDevice.columns)",
        "DeviceSchedule.columns": "\(DeviceSchedule.columns)", "DeviceToken.columns": "\(DeviceToken.columns)",
        "DeviceSchedule.stored.set(from: 2)": "\(DeviceSchedule.stored.set(from: 2))",
        "DeviceSchedule.ofPushes.set(from: 2)": "\(DeviceSchedule.ofPushes.set(from: 2))",
        "Device.columns": "\(Device.columns.sqlite)",
        "DueDevice.columns.sqlite": "\(DueDevice.columns.sqlite)", "DueAlert.columns": "\(DueAlert.columns.sqlite)",
        "InboxState.counts.of(\"i\")": "\(InboxState.counts.of("i"))", "InboxState.columns.list": "\(InboxState.columns.list)",
        "InboxState.stored.set(from: 2)": "\(InboxState.stored.set(from: 2))",
        "InboxState.policyOfNew": "\(InboxState.policyOfNew)",
        "counts.list": "\(InboxState.counts.list)", "Notification.columns": "\(Notification.columns.sqlite)",
        "DeliveryReport.columns": "\(DeliveryReport.columns)", "DeliveryReport.tables": "\(DeliveryReport.tables)",
        "hasReason(\"$5\").sqlite": "\(DeliveryRepository<StoreReading>.hasReason("$5").sqlite)",
        "hasReason(\"$6\")": "\(DeliveryRepository<StoreReading>.hasReason("$6").sqlite)",
    ]

    /// The text with what stands between its literals.
    private static func whole(_ text: String, _ constants: [String: String]) -> String {
        let inline = /\\\(SQLText\(sqlite: "([^"]*)", \)\)/
        let part = /\\\(([A-Za-z][A-Za-z.]*(?:\((?:[a-z]+: )?(?:\d+|"[^"]*")\)(?:\.sqlite)?)?)\)/
        return text.replacing(inline) { String($0.1) }.replacing(part) { match in
            let name = String(match.1)
            if let constant = constants[name] { return whole(constant, constants) }
            return parts[name] ?? String(match.0)
        }
    }

    /// Every statement of the repositories that SQLite gets, each on one line.
    private static func statements() throws -> [String] {
        let constant = /private let (\w+): (?:SQL|SQLText) =\s*(?:"""\n(.*?)"""|"((?:[^"\\\n]|\\\([^"\n]*\))*)")/
            .dotMatchesNewlines()
        let beginning = /^\s*(?:WITH|SELECT|INSERT|UPDATE|DELETE)/
        let ofPostgres = /postgres: (?:"""\n.*?"""|"[^"\n]*")/.dotMatchesNewlines()
        let block = /"""\n(.*?)"""/.dotMatchesNewlines()
        let line = /"((?:WITH|SELECT|INSERT|UPDATE|DELETE) (?:[^"\\\n]|\\\([^"\n]*?\))*)"/
        var found: [String] = []
        let folders = ["Store/Postgres/", "Store/Move/"].map { "Sources/CampanileServer/" + $0 }
        for file in try HouseRulesTests.files("Sources/CampanileServer/Store") where !folders.contains(where: file.path.hasPrefix)
        {
            let text = file.lines.joined(separator: "\n").replacing(ofPostgres, with: "")
            let constants = Dictionary(
                uniqueKeysWithValues: text.matches(of: constant).map { (String($0.1), String($0.2 ?? $0.3 ?? "")) })
            let literals = text.matches(of: block).map { String($0.1) } + text.matches(of: line).map { String($0.1) }
            let texts = Set(literals).union(constants.values)
            // A constant that stands in others is no statement itself.
            let pieces = Set(constants.filter { name, _ in text.contains("\\(\(name))") }.values)
            found += texts.filter { !pieces.contains($0) }.map { whole($0, constants) }
                .filter { $0.contains(beginning) }
        }
        return found.filter { statement in !onlyPostgres.contains { statement.contains($0) } }
            .map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
    }

    private static func plan(of statement: String, on connection: Connection) throws -> [String] {
        var prepared: OpaquePointer?
        let code = sqlite3_prepare_v2(connection.handle, "EXPLAIN QUERY PLAN " + statement, -1, &prepared, nil)
        defer { sqlite3_finalize(prepared) }
        #expect(code == SQLITE_OK, "\(statement): \(String(cString: sqlite3_errmsg(connection.handle)))")
        var lines: [String] = []
        while sqlite3_step(prepared) == SQLITE_ROW {
            if let text = sqlite3_column_text(prepared, 3) { lines.append(String(cString: text)) }
        }
        return lines
    }

    private static func onFilledDatabase(_ body: (Connection) throws -> Void) throws {
        let folder = TemporaryFolder()
        let database = try Store.open(folder.database, world: .live).database.sqlite
        defer { database.close() }
        try database.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO inboxes (id, app, user_id, unread_count)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT i, 'default', i, 10 FROM n;
                INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                SELECT i % 20 + 1, CAST(printf('%016d', i) AS BLOB), i, iif(i % 10, i, NULL), 'Title', 'Body' FROM n;
                """)
        }
        try database.read(body)
    }
}
