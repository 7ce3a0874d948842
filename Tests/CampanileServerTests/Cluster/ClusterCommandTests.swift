import CampanileCore
import Foundation
import Logging
import SQLEngine
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// The operator's commands on a PostgreSQL database.
@Suite("Commands on PostgreSQL", .endsIfItHangs)
struct ClusterCommandTests {
    private let clock = HandClock()
    private let world: World
    private let address: String
    private var configuration = Configuration()

    init() throws {
        world = .hand(clock)
        address = try PostgresServer.shared.get().makeDatabase()
        configuration.database = address
        configuration.jwt.secret = RunningServer.secret
    }

    private func beat(_ store: Store, _ name: String) async throws -> ServerNode {
        let node = ServerNode(
            id: UUIDv7(high: 0x0190_0000_0000_7001, low: 1 << 63 | UInt64(name.utf8.count)), name: name, version: "1.2",
            address: "\(name):3001")
        _ = try await store.cluster.renew(node, giving: [], isAnew: false)
        // However busy the machine is, it lives while the test does.
        try seen(name, store, later: 600_000)
        return node
    }

    @Test("what makes something makes the database, and what only looks says that there is nothing")
    func missing() throws {
        #expect(try OperatorCommands.pendingMigrations(configuration) == PostgresMigrations.all.map(\.name))
        let error = #expect(throws: OperatorError.self) {
            try OperatorCommands(configuration, isMade: false, world: world)
        }
        #expect(error?.description.hasPrefix("Nothing of Campanile's is in the database postgres://") == true)
        let operations = try OperatorCommands(configuration, world: world)
        defer { operations.close() }
        #expect(operations.schema.from == 0 && operations.schema.to == PostgresMigrations.migrator.newest)
        #expect(try OperatorCommands.pendingMigrations(configuration) == [])
    }

    @Test("a key is made, listed and ended; a notification is created, explained and counted")
    func everyday() async throws {
        let operations = try OperatorCommands(configuration, world: world)
        defer { operations.close() }
        _ = try operations.createKey(name: "shop", app: "default")
        #expect(throws: OperatorError.self) { try operations.createKey(name: "shop", app: "default") }
        #expect(try operations.keys().map(\.name) == ["shop"])
        try operations.revokeKey(name: "shop")
        #expect(throws: OperatorError.self) { try operations.revokeKey(name: "shop") }
        try operations.revoke(user: "alice", app: "default")
        let id = try await operations.notify(user: "alice", app: "default", title: "T", body: "B")
        #expect(try operations.explain("\(id)").first?.hasPrefix("Nothing was owed") == true)
        #expect(try operations.stats().first?.hasPrefix("database   postgres://") == true)
        #expect(try operations.stats().first?.contains("owner@") == false)
        #expect(try operations.auditBadges { _, _ in }.summary == "1 inbox, 0 wrong.")
    }

    @Test("the nodes hear at once that credentials have changed, and what was created")
    func hints() async throws {
        let operations = try OperatorCommands(configuration, world: world)
        let heard = Mutex<[String]>([])
        let (connections, connected) = AsyncStream.makeStream(of: Void.self)
        let listener = try PostgresListener(try PostgresAddress(address), options: .init(), channel: "campanile") { event in
            switch event {
            case .connected: connected.yield()
            case .payload(let text): heard.withLock { $0 += text.split(separator: ",").map(String.init) }
            default: break
            }
            connected.yield()
        }
        defer { listener.close() }
        for await _ in connections { break }
        try operations.revoke(user: "alice", app: "default")
        _ = try await operations.notify(user: "alice", app: "default", title: "T", body: "B")
        operations.close()
        for await _ in connections where heard.withLock({ Set($0).isSuperset(of: ["-1", "0", "1"]) }) { break }
    }

    @Test("a line is printed for each node, and silent ones are marked; on a file a sentence")
    func nodes() async throws {
        let operations = try OperatorCommands(configuration, world: world)
        defer { operations.close() }
        #expect(try operations.nodes().first?.hasPrefix("No node serves") == true)
        let store = try Store.open(postgres: address, world: world).database
        defer { store.close() }
        _ = try await beat(store, "one")
        _ = try await beat(store, "three")
        try silence(store)
        let lines = try operations.nodes()
        #expect(lines.count == 2)
        let words = lines.map { $0.split(separator: "\t").map(String.init) }
        #expect(words[0][0] == "one" && words[0][1] == "one:3001" && words[0][2] == "1.2" && words[0][5].hasSuffix("shards"))
        #expect(words[0].last?.hasPrefix("silent for ") == true && words[1].last?.hasPrefix("silent") == false)
        #expect(words[1][0] == "three" && words[1][3].hasPrefix("since ") && words[1][4].hasPrefix("seen "))

        let folder = TemporaryFolder()
        var file = configuration
        file.database = folder.database
        let others = try OperatorCommands(file, world: world)
        defer { others.close() }
        #expect(
            try others.nodes() == [
                "\(folder.database) is a SQLite file: one server at a time works on it, and there are no nodes."
            ])
    }

    /// Twenty minutes pass without the node.
    private func silence(_ store: Store) throws { try seen("one", store, later: -1_200_000) }

    /// Changes when a node was heard of.
    private func seen(_ name: String, _ store: Store, later milliseconds: Int64) throws {
        guard case .postgres(let database) = store.base else { return }
        try database.writeBlocking { unit in
            unit.noteChange()
            _ = try unit.plainConnection.run("UPDATE nodes SET seen_at = seen_at + $2 WHERE name = $1", name, milliseconds)
        }
    }

    @Test("a schema isn't changed under nodes of an earlier version")
    func underNodes() async throws {
        let store = try Store.open(postgres: address, world: world).database
        defer { store.close() }
        let newer = PostgresMigrator(
            migrations: PostgresMigrations.all + [Migration(version: 99, name: "p0099_next", sql: "SELECT 1")])
        try Store.refuseUnderNodes(address, migrator: newer)
        let node = try await beat(store, "one")
        let error = #expect(throws: OperatorError.self) { try Store.refuseUnderNodes(address, migrator: newer) }
        #expect(error?.description.contains("Nodes of an earlier version serve the database") == true)
        #expect(error?.description.contains("(one)") == true)
        try Store.refuseUnderNodes(address)
        try await store.cluster.leave(node)
        try Store.refuseUnderNodes(address, migrator: newer)
    }

    @Test("an import checks and writes, and needs no folder beside the database")
    func imported() async throws {
        let source = try SourceFile("user_id,title,created_at,external_id\nalice,T,2025-01-02T03:04:05Z,1\n")
        func run(isDryRun: Bool) async throws -> ImportReport {
            try await DatabaseImport(of: .notifications, configuration, app: "default", world: .live).run(
                source.path, isDryRun: isDryRun)
        }
        await #expect(throws: OperatorError.self) { try await run(isDryRun: true) }
        #expect(try await run(isDryRun: false).counts[.made] == 1)
        #expect(try await run(isDryRun: true).counts[.known] == 1)
    }

    @Test("backup and restore name PostgreSQL's own means")
    func backups() throws {
        for work in [
            { try DatabaseBackup(of: address).make(at: "/tmp/never") { _, _ in } },
            { _ = try DatabaseRestore(of: "/tmp/never", to: address, world: world).run() },
        ] {
            let error = #expect(throws: OperatorError.self) { try work() }
            for word in ["pg_dump", "pgBackRest", "snapshots"] { #expect(error?.description.contains(word) == true) }
        }
    }

    @Test("a commit whose answer is lost is told in a sentence, with what to do")
    func unknownCommits() async throws {
        let server = try PostgresServer()
        var configuration = configuration
        configuration.database = try server.makeDatabase()
        try Store.open(postgres: configuration.database, world: world).database.close()
        // Its standby never comes: a commit waits, and is cancelled.
        try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.stop(.fast)
        try server.start()
        let operations = try OperatorCommands(configuration, world: world)
        defer { operations.close() }
        let other = try Store.open(postgres: configuration.database, world: world).database
        defer { other.close() }
        guard case .postgres(let database) = other.base else { return }
        func sentence(_ work: @escaping @Sendable () async throws -> Void) async throws -> String {
            let isOver = Atomic<Bool>(false)
            let task = Task {
                defer { isOver.store(true, ordering: .sequentiallyConsistent) }
                do {
                    try await work()
                    return "it was done"
                } catch { return "\(error)" }
            }
            // While the machine is busy the commit may have ended by itself, because it took too long.
            try await lookUntil {
                try isOver.load(ordering: .sequentiallyConsistent)
                    || database.readBlocking {
                        try $0.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
                    } > 0
            }
            return await task.value
        }
        let key = try await sentence { try await offThePool { _ = try operations.createKey(name: "shop", app: "default") } }
        #expect(key.contains("the key shop may have been made") && key.contains("keys revoke shop"))
        let made = try await sentence { _ = try await operations.notify(user: "alice", app: "default", title: "T", body: "B") }
        #expect(made.contains("may have been created"))
        let ended = try await sentence { try await offThePool { try operations.revokeKey(name: "shop") } }
        #expect(ended.contains("Run the command again"))
    }

    @Test("the doctor tells the server's version, what a commit promises, the clocks and silent nodes")
    func doctor() async throws {
        let store = try Store.open(postgres: address, world: .live).database
        defer { store.close() }
        _ = try await beat(store, "one")
        try silence(store)
        let findings = await Doctor(configuration, world: .live, logger: Fixture.silent).examine()
        func finding(_ subject: String) -> Doctor.Finding? { findings.first { $0.subject == subject } }
        #expect(finding("database")?.isGood == true)
        #expect(finding("PostgreSQL")?.sentence.hasPrefix("The server is PostgreSQL 1") == true)
        #expect(finding("durability")?.sentence.contains("may lose acknowledged writes") == true)
        // The tests' server.
        let disk = findings.filter { $0.subject == "disk" }
        #expect(disk.map(\.isGood) == [false, true] && disk[0].sentence.contains("fsync is off"))
        #expect(finding("clock")?.isGood == true && finding("node one")?.isGood == false && finding("nodes")?.isGood == true)
        #expect(finding("user tokens") == nil)
        var bare = configuration
        bare.jwt.secret = nil
        let others = await Doctor(bare, world: .hand(clock), logger: Fixture.silent).examine()
        #expect(others.contains { $0.subject == "clock" && !$0.isGood })
        #expect(others.contains { $0.subject == "user tokens" && !$0.isGood })
    }

    @Test("what standbys promise is said as far as it can be seen")
    func standbys() {
        func finding(_ names: String, _ standbys: [PostgresHealth.Standby]) -> Doctor.Finding {
            PostgresHealth(
                version: "15", synchronousCommit: "on", standbyNames: names, standbys: standbys, serverTime: clock.now,
                ownTime: clock.now
            ).durability
        }
        let names = "ANY 1 (b, c)"
        #expect(!finding(names, []).isGood)
        #expect(!finding(names, [.init(name: "b", state: "async")]).isGood)
        #expect(finding(names, [.init(name: "b", state: "quorum")]).sentence.hasSuffix("Connected: b."))
        #expect(finding(names, [.init(name: "", state: nil)]).sentence.contains("pg_monitor"))
        #expect(finding("", []).isGood)
    }

    @Test(
        "fewer connected standbys than a commit waits for are named",
        arguments: [
            ("FIRST 2 (b, c)", 2), ("any 2 (b, c)", 2), ("2 (b, c)", 2), ("2(b,c)", 2), ("ANY 1 (b, c)", 1), ("b, c", 1),
            ("*", 1),
            ("\"b (2\", c", 1), ("first, c", 1), ("FIRST 3 (\"b\", c, d)", 3), ("", 0),
        ])
    func standbysNeeded(_ names: String, _ needed: Int) {
        func health(_ connected: Int) -> PostgresHealth {
            let standbys = ["b", "c", "d"].prefix(connected).map { PostgresHealth.Standby(name: $0, state: "sync") }
            return PostgresHealth(
                version: "15", synchronousCommit: "on", standbyNames: names,
                standbys: standbys + [.init(name: "e", state: "potential")], serverTime: clock.now, ownTime: clock.now)
        }
        #expect(health(0).standbysNeeded == needed)
        for connected in 0...3 {
            let finding = health(connected).durability
            #expect(finding.isGood == (connected >= needed), "\(connected)")
            #expect(finding.isGood || finding.sentence.contains("every write waits for \(needed) of them"))
        }
    }

    @Test("the program prints no password, and says in a sentence what it refuses")
    func program() throws {
        let environment = ["CAMPANILE_DATABASE": address, "CAMPANILE_JWT_SECRET": RunningServer.secret.exposed]
        let refused = try ProgramTests.Running(["keys", "list", "--database", "postgres://u:hush@db/name"])
        #expect(refused.line(with: "holds a password") != nil && !refused.lines.joined().contains("hush"))
        let bare = try ProgramTests.Running(["serve", "--port", "0"], environment: ["CAMPANILE_DATABASE": address])
        #expect(bare.line(with: "On PostgreSQL set jwt.secret or jwt.jwks_file") != nil)
        #expect(bare.program.waitUntilEnded() == 1)
        let token = try ProgramTests.Running(["token", "alice"], environment: ["CAMPANILE_DATABASE": address])
        #expect(token.line(with: "On PostgreSQL set jwt.secret or jwt.jwks_file") != nil)
        // Trusted connections don't look at it.
        let secret = address.replacing("owner@", with: "owner:hush@")
        let server = try ProgramTests.Running(
            ["serve", "--port", "0"], environment: environment.merging(["CAMPANILE_DATABASE": secret]) { $1 })
        defer { server.program.kill() }
        #expect(server.line(with: "KEY=$(") != nil)
        #expect(!server.lines.joined().contains("hush"))
        let nodes = try ChildProgram.output(of: ProgramTests.path, ["nodes"], environment: environment)
        #expect(nodes.contains("shards") && nodes.split(separator: "\n").count == 1)
    }

    /// A thread that still waits for PostgreSQL when the process ends may be inside one of them.
    @Test("at its end no command runs the destructors of libpq's libraries, whether it worked, was refused or served")
    func destructors() throws {
        let folder = TemporaryFolder()
        let variables = ["CAMPANILE_JWT_SECRET": RunningServer.secret.exposed, "LD_DEBUG": "files"]
        /// The libraries whose destructors ran.
        func destroyed(_ arguments: [String], database: String, status: Int32) throws -> String {
            let log = "\(folder.path)/\(arguments[0])"
            let environment = ["CAMPANILE_DATABASE": database, "LD_DEBUG_OUTPUT": log].merging(variables) { $1 }
            let running = try ProgramTests.Running(arguments, environment: environment)
            if arguments[0] == "serve" {
                #expect(running.line(with: "Campanile listens on") != nil)
                kill(running.program.id, SIGTERM)
            }
            while running.line(with: "\n") != nil {}
            #expect(running.program.waitUntilEnded() == status)
            let text = try String(contentsOfFile: "\(log).\(running.program.id)", encoding: .utf8)
            return text.split(separator: "\n").filter { $0.contains("calling fini") }.joined(separator: "\n")
        }
        for (command, status) in [(["migrate"], Int32(0)), (["keys", "revoke", "none"], 1), (["serve", "--port", "0"], 0)] {
            #expect(try destroyed(command, database: address, status: status) == "")
        }
        // The log would show them.
        #expect(try destroyed(["migrate"], database: folder.database, status: 0).contains("libsqlite3"))
    }
}
