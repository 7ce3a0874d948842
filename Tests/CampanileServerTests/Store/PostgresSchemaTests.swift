import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("PostgreSQL's schema", .endsIfItHangs)
struct PostgresSchemaTests {
    private func open(_ migrations: [Migration]) throws -> PostgresDatabase<PostgresStoreUnit> {
        let address = try PostgresAddress(PostgresServer.shared.get().makeDatabase())
        _ = try PostgresMigrator(migrations: migrations).migrate(address, options: PostgresOptions())
        return try PostgresDatabase<PostgresStoreUnit>(address)
    }

    /// Columns, constraints, indexes and settings, a line for each.
    private func described(_ database: PostgresDatabase<PostgresStoreUnit>) throws -> [String] {
        try database.readBlocking { connection in
            try connection.all(
                """
                SELECT 'column ' || c.relname || ' ' || a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                    || ' ' || a.attnotnull || ' ' || a.attidentity::text || ' ' || coalesce(l.collname, '')
                    || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS line
                FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_collation l ON l.oid = a.attcollation
                LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0
                    AND c.relname <> 'campanile_schema'
                UNION ALL
                SELECT 'constraint ' || r.relname || ' ' || n.conname || ' ' || pg_get_constraintdef(n.oid)
                FROM pg_constraint n JOIN pg_class r ON r.oid = n.conrelid
                WHERE n.connamespace = current_schema()::regnamespace AND r.relname <> 'campanile_schema'
                UNION ALL
                SELECT 'index ' || indexdef FROM pg_indexes
                WHERE schemaname = current_schema() AND tablename <> 'campanile_schema'
                UNION ALL
                SELECT 'table ' || relname || ' ' || coalesce(array_to_string(reloptions, ' '), '') FROM pg_class
                WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname <> 'campanile_schema'
                ORDER BY line
                """
            ) { $0.text(0) }
        }
    }

    @Test("docs/schema-postgres.sql says what the migrations make")
    func documented() throws {
        let path = HouseRulesTests.root.appending(path: "docs/schema-postgres.sql")
        let text = try String(contentsOf: path, encoding: .utf8)
        let made = try open(PostgresMigrations.all)
        defer { made.close() }
        let real = try described(made)
        #expect(real.count > 200)
        let found = try open([Migration(version: 1, name: "documented", sql: text)])
        defer { found.close() }
        #expect(try described(found) == real)
        // The check itself: each of these has to be seen.
        for (before, after) in [
            (" version ", " versions "), ("fillfactor = 75", "fillfactor = 74"), ("provider, due_at)", "provider)"),
            ("'withheld')", "'held')"), ("user_id               text    COLLATE \"C\"", "user_id text"),
        ] {
            let changed = text.replacing(before, with: after, maxReplacements: 1)
            #expect(changed != text)
            let other = try open([Migration(version: 1, name: "changed", sql: changed)])
            defer { other.close() }
            #expect(try described(other) != real, "\(before) for \(after) was not seen")
        }
    }

    @Test("a database of an earlier schema becomes the newest one, and keeps everything")
    func upgraded() throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        let first = PostgresMigrator(migrations: Array(PostgresMigrations.all.prefix(1)))
        try first.migrate(try PostgresAddress(address))
        let old = try PostgresDatabase<PostgresStoreUnit>(try PostgresAddress(address))
        try old.writeBlocking { unit in
            try unit.plainConnection.script(
                """
                INSERT INTO revocations (app, user_id, not_before) VALUES ('default', 'alice', 1767225600000);
                INSERT INTO inboxes (app, user_id, unread_count, unread_since_cleared) VALUES ('default', 'alice', 3, 3);
                INSERT INTO device_tokens (app, token, shard, inbox_id, platform, provider, environment, created_at,
                    last_registered_at, told_count, due_at)
                SELECT 'default', 'fid:a', 5, id, 'android', 'fcm', 'production', 5, 7, 3, 9 FROM inboxes;
                INSERT INTO api_keys (id, name, app, hash, created_at, revoked_at)
                VALUES (1, 'orders', 'default', '\\x01', 5, 6), (2, 'orders', 'default', '\\x02', 6, NULL), (3, 'orders', 'shop', '\\x03', 1, 2);
                INSERT INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at)
                VALUES (1, 'x', '\\x01', '\\x01', 5), (2, 'x', '\\x02', '\\x02', 6), (2, 'y', '\\x02', '\\x02', 7), (3, 'x', '\\x03', '\\x03', 8);
                UPDATE program_state SET starts = 7, badge_policy = 'since_opened'
                """)
        }
        old.close()
        let store = try Store.open(postgres: address, world: .live).database
        defer { store.close() }
        let inbox = try #require(try store.readBlocking { try $0.inboxes.id(app: "default", userID: "alice") })
        #expect(try store.readBlocking { try $0.inboxes.state(inbox).unreadCount } == 3)
        let devices = try store.readBlocking { try $0.deviceTokens.devices(inbox: inbox) }
        #expect(devices.map(\.target.token) == ["fid:a"] && devices.map(\.target.kind) == [.token])
        #expect(devices.map(\.shard) == [5] && devices.map(\.schedule.toldCount) == [3])
        let due = try store.readBlocking { try $0.deviceTokens.dueParts(nil) }
        #expect(due.map(\.part) == [LanePart(Lane(app: "default", provider: .fcm), .android, .production)])
        guard case .postgres(let database) = store.base else { return }
        let kept = try database.readBlocking {
            try $0.first("SELECT starts, revocations, (SELECT count(*) FROM revocations) FROM program_state") {
                [$0.int(0), $0.int(1), $0.int(2)]
            }
        }
        #expect(kept == [7, 0, 1])
        // Of one name in one app the first key has the answers of all, of one text the later key's.
        let keys = try database.readBlocking { connection in
            try connection.all("SELECT api_key_id::text || key || encode(fingerprint, 'hex') FROM idempotency_keys ORDER BY 1") {
                $0.text(0)
            }
        }
        #expect(keys == ["1x02", "1y02", "3x03"])
        // A node of the earlier program goes on to note which lanes stopped.
        try database.writeBlocking {
            try $0.plainConnection.script(
                """
                INSERT INTO lane_conditions (app, provider, condition, reason, since, node_id)
                VALUES ('default', 'apns', 'parked', 'r', 5, '00000000-0000-0000-0000-000000000001')
                ON CONFLICT (app, provider, node_id) DO UPDATE SET condition = excluded.condition
                """)
        }
        // What was there follows the policy that there was, and so does what a node of the earlier program makes.
        try database.writeBlocking {
            try $0.plainConnection.script("INSERT INTO inboxes (app, user_id) VALUES ('default', 'bob')")
        }
        let policies = try database.readBlocking { try $0.all("SELECT badge_policy FROM inboxes ORDER BY id") { $0.text(0) } }
        #expect(policies == ["since_opened", "since_opened"])
    }

    @Test("no index, and no condition of one, names a column that changes with a push that goes at once")
    func stayInTheirPage() throws {
        let database = try open(PostgresMigrations.all)
        defer { database.close() }
        let indexes = try database.readBlocking { connection in
            try connection.all(
                "SELECT indexdef FROM pg_indexes WHERE tablename IN ('inboxes', 'device_tokens', 'deliveries')"
            ) { $0.text(0) }
        }
        #expect(indexes.count > 6)
        let changing = [
            "version", "unread_count", "unread_since_cleared", "armed", "newest_id", "updated_at", "last_sequence", "told_count",
            "told_at",
            "attempted", "badge_due_at", "lease", "sending_id", "busy_until", "state", "settled_at", "answers",
        ]
        for index in indexes {
            let words = index.split { !$0.isLetter && $0 != "_" }.map(String.init)
            #expect(!words.contains { changing.contains($0) }, "\(index)")
        }
    }

    @Test("the updates of a push that goes at once and is accepted change no index")
    func hot() async throws {
        let fixture = try Fixture(on: .postgres, claimsAtCreation: true)
        try await fixture.register("a")
        // So few that all versions of their rows fit a page: another test's open transaction may keep the old ones from going.
        for _ in 0..<10 {
            try await fixture.create()
            _ = try await fixture.sent()
        }
        guard case .postgres(let database) = fixture.store.base else { return }
        for lane in 0..<database.options.lanes + 2 {
            try database.writeBlocking(lane: lane) { unit in
                _ = try unit.plainConnection.first("SELECT pg_stat_force_next_flush()") { _ in true }
            }
        }
        let counts = try database.readBlocking { connection in
            try connection.all(
                """
                SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                WHERE relname IN ('inboxes', 'device_tokens', 'deliveries') ORDER BY relname
                """
            ) { ($0.text(0), updates: $0.int(1), hot: $0.int(2)) }
        }
        for (table, updates, hot) in counts { #expect(updates >= 10 && hot == updates, "\(table): \(hot) of \(updates)") }
    }

    @Test("the schema is filled with 256 shards that nobody has, and one row of the program's state")
    func filled() throws {
        let database = try open(PostgresMigrations.all)
        defer { database.close() }
        let shards = try database.readBlocking { connection in
            try connection.first("SELECT count(*), min(shard), max(shard), count(node_id), max(epoch) FROM shards") { row in
                (0..<5).map { row.int($0) }
            }
        }
        #expect(shards == [256, 0, 255, 0, 0])
        #expect(try database.readBlocking { try $0.first("SELECT starts FROM program_state") { $0.int(0) } } == 1)
    }

    @Test("a token's shard is the first byte of SHA-256 of its app, NUL and itself")
    func shards() {
        // printf 'shop\0token' | sha256sum
        #expect(TokenShard.of(app: "shop", token: "token") == 0xbf)
        #expect(Set((0..<5_000).map { TokenShard.of(app: "shop", token: "\($0)") }).count == 256)
    }
}
