import CampanileCore
import HTTPEngine
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

@Suite("A SQLite file moves to PostgreSQL", .endsIfItHangs)
struct DatabaseMoveTests {
    private let folder = TemporaryFolder()
    private let clock = HandClock()
    private let world: World
    private let target: String

    init() throws {
        world = .hand(clock)
        target = try PostgresServer.shared.get().makeDatabase()
        let store = try Store.open(folder.database, world: world).database
        try MoveSample.fill(store)
        store.close()
    }

    private var move: DatabaseMove { DatabaseMove(from: folder.database, to: target, world: world) }

    private func opened() throws -> (file: Store, moved: Store) {
        (try Store.open(folder.database, world: world).database, try Store.openCluster(target, world: world).database)
    }

    /// Everything is there as it was.
    private func compare() throws {
        let (file, moved) = try opened()
        defer { file.close() }
        defer { moved.close() }
        for question in MoveSample.questions {
            let before = try MoveSample.answers(file, question.sql, question.kinds)
            let after = try MoveSample.answers(moved, question.sql, question.kinds)
            #expect(!before.isEmpty && before.count == after.count, "\(question.sql)")
            for (expected, found) in zip(before, after) { #expect(expected == found, "\(question.sql)") }
        }
        for (kind, store) in [("file", file), ("moved", moved)] {
            let found = try store.readBlocking { reading in
                try [7, 8, 19, 38].map { number in
                    try reading.notifications.find(
                        UUIDv7(high: 0x0190_0000_0000_7001, low: 0x8000_0000_0000_0000 + number), inbox: InboxID(3))?.content
                }
            }
            #expect(found[..<2].map { $0?.data } == ["{\"large\":true}", "{\"a\":\"\\u0000\"}"], "\(kind)")
            #expect(found.map { $0?.payload } == [nil, nil, "{\"buttons\":\"LARGE\"}", "{}"], "\(kind)")
        }
        let none: [String] = try MoveSample.answers(
            moved, "SELECT title FROM notifications WHERE inbox_id = 4", "t")
        #expect(none == ["a\u{FFFD}b"], "PostgreSQL has no NUL in a text")
        #expect(
            try MoveSample.answers(moved, "SELECT state, notification_id, device_id FROM unsuccessful_deliveries", "txi")
                == ["gone|01900000000070018000000000000002|60"])
        let shards = ["token", "other"].map { "\(TokenShard.of(app: "shop", token: $0))" }
        #expect(try MoveSample.answers(moved, "SELECT shard FROM device_tokens ORDER BY id", "i") == shards)
    }

    @Test("every row of every table arrives with all of its columns, and is where the program looks for it")
    func everything() throws {
        let report = try move.run()
        #expect(report.audit.inboxes == 2 && report.rows.map(\.count).reduce(0, +) == 5_035, "\(report.lines)")
        try compare()
    }

    @Test("every column of every table is moved, or is one of those that only nodes have")
    func complete() throws {
        let store = try Store.openCluster(target, world: world).database
        defer { store.close() }
        let columns = try MoveSample.answers(
            store,
            """
            SELECT c.relname::text, a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT attisdropped
                AND c.relname NOT IN ('campanile_schema', 'nodes', 'shards', 'program_state', 'unsuccessful_deliveries',
                    'lane_conditions', 'lane_part_conditions', 'write_proofs')
                AND NOT (c.relname = 'large_calls' AND a.attname IN ('node_id', 'takeovers'))
            ORDER BY 1, a.attnum
            """, "tt")
        guard case .postgres(let database) = store.base else { return }
        let (file, _) = try Store.open(folder.database, world: world)
        defer { file.close() }
        let tables = try file.sqlite.read { source in
            try MovedTable.names.map { try MovedTable($0, from: source, to: MoveTarget(database: database).columns(of: $0)) }
        }
        #expect(throws: SQLError.self) {
            try file.sqlite.read { source in
                let columns = try MoveTarget(database: database).columns(of: "events")
                return try MovedTable("events", from: source, to: columns + [MoveColumn(name: "more", type: "text")]).name
            }
        }
        #expect(throws: SQLError.self) { try file.sqlite.read { try MovedTable("nowhere", from: $0, to: []).name } }
        let moved = tables.flatMap { table in table.columns.map { "\(table.name)|\($0.name)" } }
        #expect(Set(moved) == Set(columns) && moved.count == columns.count)
    }

    @Test("stopped after any part and run again it goes on, and nodes refuse the database until it is done")
    func resumed() throws {
        struct Killed: Error {}
        var runs = 0
        var isDone = false
        while !isDone, runs < 100 {
            let steps = Mutex(2 * runs + 1)
            do {
                _ = try move.run { part, _, _ in
                    guard part == .copy else { return }
                    // Each run gets a little further: the tables that are done are looked at, and something is written.
                    let left = steps.withLock { steps in
                        steps -= 1
                        return steps
                    }
                    if left < 0 { throw Killed() }
                }
                isDone = true
            } catch is Killed {
                runs += 1
                let error = #expect(throws: OperatorError.self) { try Store.openCluster(target, world: world) }
                #expect(error?.description.contains("isn't filled yet") == true)
            }
        }
        #expect(isDone && runs > 5)
        try compare()
    }

    @Test("stopped while the badges are recounted, or after that, it isn't finished", arguments: [0, 1])
    func stoppedLate(_ last: Int) throws {
        struct Killed: Error {}
        let audits = Mutex(0)
        #expect(throws: Killed.self) {
            try move.run { part, done, all in
                #expect(done <= all)
                guard part == .audit else { return }
                let number = audits.withLock { number in
                    defer { number += 1 }
                    return number
                }
                if number == last { throw Killed() }
            }
        }
        #expect(throws: OperatorError.self) { try Store.openCluster(target, world: world) }
        let most = Mutex(0)
        _ = try move.run { part, done, _ in if part == .copy { most.withLock { $0 = max($0, done) } } }
        #expect(most.withLock { $0 } == 5_035, "what was there counts as done")
        try compare()
    }

    @Test("what takes as long as the database is large has no limit of time")
    func unlimited() throws {
        #expect(DatabaseMove.options.surveyTimeoutMilliseconds == 0)
    }

    @Test("run again after its end it says the same, until a node has written")
    func repeated() throws {
        let first = try move.run()
        #expect(try move.run().lines == first.lines)
        let moved = try Store.openCluster(target, world: world).database
        try moved.writeBlocking { _ = try $0.inboxes.making(app: "shop", userID: "carol") }
        moved.close()
        let error = #expect(throws: OperatorError.self) { try move.run() }
        #expect(error?.description.contains("isn't empty") == true)
    }

    @Test("new ids, versions and sequences go on after the old ones")
    func goesOn() throws {
        _ = try move.run()
        let (file, moved) = try opened()
        defer { file.close() }
        defer { moved.close() }
        try moved.writeBlocking { transaction in
            let made = try transaction.inboxes.making(app: "shop", userID: "carol")
            #expect(made.id.rawValue == 5 && made.state.version == 104)
            try transaction.apiKeys.insert(name: "newest", app: "shop", kind: .producer, hash: [9])
        }
        let keys = try moved.readBlocking { try $0.apiKeys.list().map(\.name) }
        #expect(Set(keys) == ["old", "new", "newest"])
        let sequences = try MoveSample.answers(moved, "SELECT last_value FROM device_tokens_id_seq WHERE is_called", "i")
        #expect(sequences == ["60"], "a device that is gone keeps its number")
    }

    @Test("a client that comes back with any number it was told is answered as before, and is told no number twice")
    func streams() throws {
        _ = try move.run()
        let (file, moved) = try opened()
        defer { file.close() }
        defer { moved.close() }
        for last in [0, 12, 15, 16, 17, 18, 25, 26, 39, 40, 41] as [Int64] {
            for inbox in [InboxID(3), InboxID(4)] {
                let feeds = [file, moved].map { EventFeed(database: $0) }
                let answers = try feeds.map { feed in
                    try feed.database.snapshotBlocking { reading in
                        try feed.join(inbox, after: .init(sequence: nil, version: -1), lastEventID: "\(last)", in: reading)
                            .opening.map { "\($0.event) \($0.id) \(String(decoding: $0.data, as: UTF8.self))" }
                    }
                }
                #expect(answers[0] == answers[1], "after \(last)")
            }
        }
        try moved.writeBlocking { try $0.events.insert(.badge, inbox: InboxID(3)) }
        #expect(try moved.readBlocking { try $0.events.after(40, inbox: InboxID(3), limit: 9).events.map(\.sequence) } == [41])
    }

    @Test("a move of another file, of a file that has changed, to a full database and under a server is refused")
    func refused() throws {
        func sentence(_ work: DatabaseMove) -> String {
            do {
                let report = try work.run()
                return "it was moved: \(report.lines)"
            } catch {
                return "\(error)"
            }
        }
        struct Killed: Error {}
        #expect(throws: Killed.self) { try move.run { _, done, _ in if done > 2_000 { throw Killed() } } }
        let file = try Store.open(folder.database, world: world).database
        try file.writeBlocking { try $0.revocations.revoke(app: "shop", userID: "bob", tokensBefore: clock.now) }
        file.close()
        #expect(sentence(move).contains("isn't empty, and what is in it didn't come from"))

        let full = try PostgresServer.shared.get().makeDatabase()
        let store = try Store.open(postgres: full, world: world).database
        try store.writeBlocking { _ = try $0.inboxes.making(app: "shop", userID: "alice") }
        store.close()
        #expect(sentence(DatabaseMove(from: folder.database, to: full, world: world)).contains("isn't empty"))

        let lock = try ServerLock(database: folder.database)
        #expect(sentence(move).contains("Another campanile serves the database"))
        lock.release()
        #expect(sentence(DatabaseMove(from: target, to: target, world: world)).contains("A SQLite file is moved"))
        #expect(sentence(DatabaseMove(from: folder.database, to: "x", world: world)).contains("is moved to postgres://"))
        let missing = folder.path + "/none"
        #expect(sentence(DatabaseMove(from: missing, to: target, world: world)).contains("There is no database"))
    }

    @Test("the program goes on with a move that was killed, and a server waits for its end")
    func program() throws {
        struct Killed: Error {}
        #expect(throws: Killed.self) { try move.run { _, done, _ in if done > 2_000 { throw Killed() } } }
        let environment = ["CAMPANILE_DATABASE": target, "CAMPANILE_JWT_SECRET": RunningServer.secret.exposed]
        let early = try ProgramTests.Running(["serve", "--port", "0"], environment: environment)
        #expect(early.line(with: "isn't filled yet") != nil && early.program.waitUntilEnded() == 1)
        let secret = target.replacing("owner@", with: "owner:hush@")
        let refused = try ProgramTests.Running(["move", folder.database, secret])
        #expect(refused.line(with: "TO holds a password") != nil && !refused.lines.joined().contains("hush"))
        let moving = try ProgramTests.Running(["move", folder.database], environment: environment)
        #expect(moving.line(with: "Every table has as many rows as before") != nil)
        #expect(moving.program.waitUntilEnded() == 0)
        try compare()
        let served = try ProgramTests.Running(["serve", "--port", "0"], environment: environment)
        defer { served.program.kill() }
        #expect(served.line(with: "Campanile listens on") != nil)
    }

    private static let node = ServerNode(
        id: UUIDv7(high: 0x0190_0000_0000_7001, low: 1 << 63), name: "a", version: "1", address: "a:1")

    private func seen(_ store: Store, later milliseconds: Int64) throws {
        guard case .postgres(let database) = store.base else { return }
        try database.writeBlocking { unit in
            unit.noteChange()
            _ = try unit.plainConnection.run("UPDATE nodes SET seen_at = seen_at + $1", milliseconds)
        }
    }

    @Test("a database that nodes serve is not filled")
    func served() async throws {
        let store = try Store.open(postgres: target, world: world).database
        defer { store.close() }
        try await store.cluster.register(Self.node)
        // However busy the machine is, it lives while the test does.
        try seen(store, later: 600_000)
        let error = #expect(throws: OperatorError.self) { try move.run() }
        #expect(error?.description.contains("Nodes serve the database") == true)
        // The move's own look, which no node can slip by.
        guard case .postgres(let database) = store.base else { return }
        #expect(throws: OperatorError.self) { try MoveTarget(database: database).begin("anything") }
        #expect(try store.nodeReports()?.count == 1)
    }

    @Test("a node that was silent when the move began, or starts after that, is refused and not ready until it is done")
    func silent() async throws {
        struct Killed: Error {}
        let store = try Store.open(postgres: target, world: world).database
        defer { store.close() }
        try await store.cluster.register(Self.node)
        _ = try await store.cluster.renew(Self.node, giving: [], isAnew: false)
        try seen(store, later: -600_000)
        #expect(throws: Killed.self) { try move.run { _, done, _ in if done > 2_000 { throw Killed() } } }
        let works: [@Sendable () async throws -> Void] = [
            { _ = try await store.cluster.renew(Self.node, giving: [], isAnew: false) },
            { _ = try await store.cluster.renew(Self.node, giving: [1], isAnew: true) },
            { try await store.cluster.register(Self.node) },
        ]
        for work in works {
            let error = await #expect(throws: OperatorError.self) { try await work() }
            #expect(error?.description.contains("isn't filled yet") == true)
        }
        let health = HealthResource(database: store, node: nil, world: world, conditions: { [] }, logger: Fixture.silent)
        #expect(await health.readiness(.none).status == 503)
        #expect(try store.nodeReports()?.isEmpty == true)
        _ = try move.run()
        clock.advance(milliseconds: 2_000)
        #expect(await health.readiness(.none).status == 200)
        #expect(try await store.cluster.renew(Self.node, giving: [], isAnew: false).nodes[Self.node.id] != nil)
    }
}
