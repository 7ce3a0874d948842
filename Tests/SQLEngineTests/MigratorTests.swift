import Foundation
import SQLEngine
import Testing

private let mark: Int32 = 0x43_41_4D_50

private let first = Migration(
    version: 1, name: "things", sql: "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT);")
private let second = Migration(
    version: 2, name: "colours", sql: "ALTER TABLE things ADD COLUMN colour TEXT; UPDATE things SET colour = 'red';")
private let third = Migration(version: 3, name: "parts", sql: "CREATE TABLE parts (id INTEGER PRIMARY KEY);")

private func migrator(_ migrations: Migration...) -> Migrator {
    Migrator(migrations: migrations, applicationID: mark)
}

@Suite("Migrations")
struct MigratorTests {
    private let folder = Folder()

    private func number(_ path: String, _ sql: SQL) throws -> Int64? {
        let database = try Database(path: path)
        defer { database.close() }
        return try database.read { try $0.first(sql) { $0.int(0) } }
    }

    /// A file at schema 1 with one row.
    private func fileAtOne() throws -> String {
        let path = folder.file()
        try migrator(first).migrate(path: path)
        let database = try Database(path: path)
        try database.writeBlocking { _ = try insertThing($0.connection, "kept") }
        database.close()
        return path
    }

    @Test("a file that is missing is created, marked and brought to the newest schema, without a backup")
    func newFile() throws {
        let path = folder.file()
        var options = DatabaseOptions()
        options.pageSize = 4096
        let report = try migrator(first, second).migrate(path: path, options: options)
        #expect(report == MigrationReport(from: 0, to: 2, backupPath: nil))
        #expect(try number(path, "PRAGMA application_id") == Int64(mark))
        #expect(try number(path, "PRAGMA user_version") == 2)
        #expect(try number(path, "PRAGMA page_size") == 4096)
        #expect(folder.names == ["test.sqlite"])
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test("an empty file is as good as none")
    func emptyFile() throws {
        let path = folder.file()
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(try migrator(first).migrate(path: path) == MigrationReport(from: 0, to: 1, backupPath: nil))
    }

    @Test("a file with data is copied beside itself first")
    func backup() throws {
        let path = try fileAtOne()
        let report = try migrator(first, second, third).migrate(path: path)
        #expect(report == MigrationReport(from: 1, to: 3, backupPath: "\(path).before-v3"))
        #expect(try number(path, "SELECT count(*) FROM things WHERE colour = 'red'") == 1)
        let copy = try #require(report.backupPath)
        let attributes = try FileManager.default.attributesOfItem(atPath: copy)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        // The copy is a whole database of the schema before, which can be migrated itself.
        #expect(try number(copy, "PRAGMA user_version") == 1)
        #expect(try number(copy, "PRAGMA application_id") == Int64(mark))
        #expect(try number(copy, "SELECT count(*) FROM things") == 1)
        #expect(try migrator(first, second).migrate(path: copy, backup: false).from == 1)
    }

    @Test("a backup that is there already is never overwritten")
    func backupNames() throws {
        let path = try fileAtOne()
        let taken = "\(path).before-v2"
        try Data("mine".utf8).write(to: URL(fileURLWithPath: taken))
        #expect(try migrator(first, second).migrate(path: path).backupPath == "\(taken).2")
        #expect(try Data(contentsOf: URL(fileURLWithPath: taken)) == Data("mine".utf8))
    }

    @Test("no backup is made when none is wanted or nothing is to be done")
    func noBackup() throws {
        let path = try fileAtOne()
        #expect(try migrator(first).migrate(path: path) == MigrationReport(from: 1, to: 1, backupPath: nil))
        #expect(try migrator(first, second).migrate(path: path, backup: false).backupPath == nil)
        #expect(folder.names == ["test.sqlite"])
    }

    @Test("a migration that fails leaves the file as it was, and those before it stay")
    func rollback() throws {
        let path = try fileAtOne()
        let bad = Migration(
            version: 3, name: "bad",
            sql: """
                UPDATE things SET name = 'spoilt';
                CREATE TABLE more (id INTEGER);
                INSERT INTO nowhere VALUES (1);
                """)
        let error = #expect(throws: MigrationError.self) { try migrator(first, second, bad).migrate(path: path) }
        #expect(error?.description.contains("Migration 3 (bad)") == true)
        #expect(error?.description.contains("no such table: nowhere") == true)
        #expect(try number(path, "PRAGMA user_version") == 2)
        #expect(try number(path, "SELECT count(*) FROM things WHERE name = 'kept'") == 1)
        #expect(try number(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'more'") == 0)
        #expect(try migrator(first, second, third).migrate(path: path, backup: false).from == 2)
    }

    @Test("a table can be rebuilt while others refer to it, but not so that they refer to nothing")
    func foreignKeys() throws {
        let path = folder.file()
        let tables = Migration(
            version: 1, name: "tables",
            sql: """
                CREATE TABLE parents (id INTEGER PRIMARY KEY);
                CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents (id));
                INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1);
                """)
        let rebuild = Migration(
            version: 2, name: "rebuild",
            sql: """
                CREATE TABLE fresh (id INTEGER PRIMARY KEY, name TEXT);
                INSERT INTO fresh (id) SELECT id FROM parents;
                DROP TABLE parents;
                ALTER TABLE fresh RENAME TO parents;
                """)
        let orphan = Migration(version: 3, name: "orphan", sql: "DELETE FROM parents;")
        let error = #expect(throws: MigrationError.self) {
            try migrator(tables, rebuild, orphan).migrate(path: path)
        }
        #expect(error == .brokenForeignKeys(path: path, version: 3, name: "orphan", table: "children"))
        #expect(try number(path, "PRAGMA user_version") == 2)
        #expect(try number(path, "SELECT count(*) FROM parents") == 1)
    }

    @Test("what is pending is told without changing anything")
    func pending() throws {
        #expect(try migrator(first, second).pending(path: folder.file("missing")) == [first, second])
        #expect(folder.names == [])
        let path = try fileAtOne()
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(try migrator(first, second, third).pending(path: path) == [second, third])
        #expect(try migrator(first).pending(path: path) == [])
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(throws: MigrationError.self) { try Migrator(migrations: [first], applicationID: 7).pending(path: path) }
    }

    @Test("a file of a newer program is refused with a sentence that helps")
    func newer() throws {
        let path = try fileAtOne()
        try migrator(first, second, third).migrate(path: path)
        let known = migrator(first)
        let error = #expect(throws: MigrationError.self) { try known.migrate(path: path) }
        let sentence =
            "\(path) was written by a newer Campanile (schema 3, this program knows 1): "
            + "install that version or restore \(path).before-v3."
        #expect(error?.description == sentence)
        #expect(throws: MigrationError.self) { try known.pending(path: path) }
        try FileManager.default.removeItem(atPath: "\(path).before-v3")
        let other = #expect(throws: MigrationError.self) { try known.migrate(path: path) }
        #expect(other?.description.hasSuffix("or restore a backup made before it was installed.") == true)
    }

    @Test("of several copies that newer programs made, the one is named that this program can read")
    func newerTwice() throws {
        let path = try fileAtOne()
        try migrator(first, second).migrate(path: path)
        try migrator(first, second, third).migrate(path: path)
        #expect(folder.names == ["test.sqlite", "test.sqlite.before-v2", "test.sqlite.before-v3"])
        for (known, copy) in [(migrator(first), "before-v2"), (migrator(first, second), "before-v3")] {
            let error = #expect(throws: MigrationError.self) { try known.migrate(path: path) }
            #expect(error?.description.hasSuffix("or restore \(path).\(copy).") == true)
            #expect(try known.pending(path: "\(path).\(copy)") == [])
        }
    }

    @Test("a database of another program is refused and not touched", arguments: [0, 99] as [Int32])
    func foreign(_ id: Int32) throws {
        let path = folder.file()
        let database = try Database(path: path)
        try database.writeBlocking {
            try $0.connection.script("CREATE TABLE theirs (id INTEGER); PRAGMA application_id = \(id);")
        }
        database.close()
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let error = #expect(throws: MigrationError.self) { try migrator(first).migrate(path: path) }
        #expect(error == .foreign(path: path, program: "Campanile", applicationID: id))
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
        #expect(folder.names == ["test.sqlite"])
    }

    @Test("a file that is no database is refused and not touched", arguments: [10, 5000])
    func noDatabase(_ size: Int) throws {
        let path = folder.file()
        let content = Data(repeating: 0x2A, count: size)
        try content.write(to: URL(fileURLWithPath: path))
        for refused in [{ _ = try migrator(first).migrate(path: path) }, { _ = try migrator(first).pending(path: path) }] {
            let error = #expect(throws: MigrationError.self) { try refused() }
            #expect(error == .notADatabase(path: path))
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
    }

    @Test("many that migrate at the same time do it once")
    func concurrent() async throws {
        let path = folder.file()
        let slow = Migration(
            version: 2, name: "count",
            sql: "CREATE TABLE log (n INTEGER); INSERT INTO log VALUES (1); INSERT INTO things (name) VALUES ('once');")
        let work = migrator(first, slow, third)
        try await withThrowingTaskGroup(of: MigrationReport.self) { group in
            for _ in 0..<8 { group.addTask { try work.migrate(path: path) } }
            for try await report in group { #expect(report.to == 3) }
        }
        #expect(try number(path, "SELECT count(*) FROM log") == 1)
        #expect(try number(path, "SELECT count(*) FROM things") == 1)
        #expect(try number(path, "PRAGMA user_version") == 3)
    }
}
