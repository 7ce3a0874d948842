import SQLEngine
import TestSupport
import Testing

@Suite(.endsIfItHangs) struct PostgresMigratorTests {
    private let address: PostgresAddress
    private static let one = Migration(version: 1, name: "first", sql: "CREATE TABLE a (id bigint); CREATE TABLE b (id bigint);")
    private static let two = Migration(version: 2, name: "second", sql: "INSERT INTO a VALUES (1); ALTER TABLE b ADD name text;")

    init() throws { address = try PostgresAddress(PostgresServer.shared.get().makeDatabase()) }

    @Test("pending migrations run in order, once, and are recorded")
    func runs() throws {
        let first = PostgresMigrator(migrations: [Self.one])
        #expect(try first.pending(address).map(\.version) == [1])
        #expect(try first.migrate(address) == MigrationReport(from: 0, to: 1, backupPath: nil))
        let second = PostgresMigrator(migrations: [Self.one, Self.two])
        #expect(try second.pending(address).map(\.version) == [2])
        #expect(try second.migrate(address) == MigrationReport(from: 1, to: 2, backupPath: nil))
        #expect(try second.migrate(address) == MigrationReport(from: 2, to: 2, backupPath: nil))
        let database = try PostgresDatabase<Cells>(address)
        #expect(try database.readBlocking { try $0.all("SELECT id FROM a") { $0.int(0) } } == [1])
        let names = try database.readBlocking { try $0.all("SELECT name FROM campanile_schema ORDER BY version") { $0.text(0) } }
        #expect(names == ["first", "second"])
    }

    @Test("nodes that start at the same time run each migration once")
    func together() async throws {
        let migrator = PostgresMigrator(migrations: [Self.one, Self.two])
        let nodes = (0..<6).map { _ in onThread { [address] in try migrator.migrate(address) } }
        for error in await failures(nodes) { #expect(error == nil) }
        let database = try PostgresDatabase<Cells>(address)
        #expect(try database.readBlocking { try $0.first("SELECT count(*) FROM a") { $0.int(0) } } == 1)
    }

    @Test("something else that has the name of the table is told, not waited for")
    func namesake() throws {
        let database = try PostgresDatabase<Cells>(address)
        defer { database.close() }
        try database.writeBlocking { try $0.connection.script("CREATE TYPE campanile_schema AS ENUM ('a')") }
        var options = PostgresOptions()
        options.migrationPatienceMilliseconds = 0
        #expect {
            try PostgresMigrator(migrations: [Self.one]).migrate(address, options: options)
        } throws: { error in
            guard case MigrationError.occupied = error else { return false }
            return true
        }
    }

    @Test("a migration that fails is undone and named; those before it stay")
    func fails() throws {
        let wrong = Migration(version: 2, name: "wrong", sql: "CREATE TABLE c (id bigint); SELECT nonsense();")
        let migrator = PostgresMigrator(migrations: [Self.one, wrong])
        #expect {
            try migrator.migrate(address)
        } throws: { error in
            guard case MigrationError.failed(_, 2, "wrong", let cause) = error else { return false }
            return cause.sqlState == "42883"
        }
        let database = try PostgresDatabase<Cells>(address)
        let isRight = try database.readBlocking {
            try $0.first("SELECT to_regclass('c') IS NULL AND to_regclass('a') IS NOT NULL") { $0.bool(0) }
        }
        #expect(isRight == true)
        #expect(try migrator.pending(address).map(\.version) == [2])
    }

    @Test("a schema that a newer program made is refused, and not changed")
    func newer() throws {
        try PostgresMigrator(migrations: [Self.one, Self.two]).migrate(address)
        let older = PostgresMigrator(migrations: [Self.one])
        let expected = MigrationError.newerSchema(
            path: address.description, program: "Campanile", found: 2, known: 1, backup: nil)
        #expect(throws: expected) { try older.migrate(address) }
        #expect(throws: expected) { try older.pending(address) }
    }

    private static var hasty: PostgresOptions {
        var options = PostgresOptions()
        (options.migrationLockMilliseconds, options.migrationPauseMilliseconds) = (20, 10)
        options.idleInTransactionTimeoutMilliseconds = 600_000
        return options
    }

    @Test("a migration that meets a long transaction lets the others pass, and is done when that ends")
    func stepsBack() async throws {
        try PostgresMigrator(migrations: [Self.one]).migrate(address)
        let (long, others) = (try PostgresDatabase<Cells>(address, options: Self.hasty), try PostgresDatabase<Cells>(address))
        let gate = Gate()
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        let holder = onThread {
            try long.snapshotBlocking { connection throws in
                _ = try connection.run("SELECT id FROM b")
                continuation.finish()
                gate.stand()
            }
        }
        for await _ in entered {}
        var options = Self.hasty
        options.migrationPatienceMilliseconds = 600_000
        let migrator = PostgresMigrator(migrations: [Self.one, Self.two])
        let migration = onThread { [address, options] in try migrator.migrate(address, options: options) }
        try await lookUntil {
            try others.readBlocking {
                try $0.run("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'b'::regclass")
            } > 0
        }
        // Behind one that waits for ever it would get nothing.
        for _ in 0..<3 { #expect(try others.readBlocking { try $0.first("SELECT count(*) FROM b") { $0.int(0) } } == 0) }
        gate.open()
        #expect(await failures([holder, migration]) == [nil, nil])
        #expect(try others.readBlocking { try $0.first("SELECT count(name) FROM b") { $0.int(0) } } == 0)
    }

    @Test("a migration that others never let through fails with a sentence, undone")
    func givesUp() throws {
        try PostgresMigrator(migrations: [Self.one]).migrate(address)
        let long = try PostgresDatabase<Cells>(address, options: Self.hasty)
        let migrator = PostgresMigrator(migrations: [Self.one, Self.two])
        try long.snapshotBlocking { connection throws in
            _ = try connection.run("SELECT id FROM b")
            var options = Self.hasty
            options.migrationPatienceMilliseconds = 0
            #expect {
                try migrator.migrate(address, options: options)
            } throws: { error in
                guard case MigrationError.failed(_, 2, "second", let cause) = error else { return false }
                return cause.code == .busy && cause.message.contains("other sessions held locks")
            }
        }
        #expect(try migrator.pending(address).map(\.version) == [2])
        #expect(try long.readBlocking { try $0.first("SELECT count(*) FROM a") { $0.int(0) } } == 0)
    }

    @Test("a database where another application has tables of these names is refused, and not changed")
    func occupied() throws {
        let text = try PostgresServer.shared.get().makeDatabase()
        let other = try PostgresAddress(text)
        let theirs = Migration(version: 1, name: "theirs", sql: "CREATE TABLE b (theirs text)")
        try PostgresMigrator(migrations: [theirs]).migrate(other)
        let database = try PostgresDatabase<Cells>(other)
        try database.writeBlocking { _ = try $0.connection.run("DROP TABLE campanile_schema") }
        #expect {
            try PostgresMigrator(migrations: [Self.one]).migrate(other)
        } throws: { error in
            guard case MigrationError.occupied = error else { return false }
            return "\(error)".contains("another application's tables (relation \"b\" already exists)")
        }
        let tables = try database.readBlocking {
            try $0.all("SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace") {
                $0.text(0)
            }
        }
        #expect(tables == ["b"])
    }
}
