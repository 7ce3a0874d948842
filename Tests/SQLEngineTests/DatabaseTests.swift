import Foundation
import SQLEngine
import TestSupport
import Testing

@Suite("A database file")
struct DatabaseTests {
    private func pragma(_ database: Database, _ sql: SQL) throws -> String? {
        try database.read { try $0.first(sql) { $0.text(0) } }
    }

    @Test("a new file is private, in write-ahead logging, with the page size asked for")
    func newFile() throws {
        let fixture = try Fixture { $0.pageSize = 16384 }
        for name in ["test.sqlite", "test.sqlite-wal", "test.sqlite-shm"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.folder.file(name))
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
        #expect(try pragma(fixture.database, "PRAGMA journal_mode") == "wal")
        #expect(try pragma(fixture.database, "PRAGMA page_size") == "16384")
        #expect(try pragma(fixture.database, "PRAGMA foreign_keys") == "1")
        #expect(try pragma(fixture.database, "PRAGMA mmap_size") == "0")
    }

    @Test(
        "the writer syncs as asked",
        arguments: zip(DatabaseOptions.Synchronous.allCases, [2, 1, 0] as [Int64]))
    func synchronous(_ setting: DatabaseOptions.Synchronous, _ number: Int64) throws {
        let fixture = try Fixture { $0.synchronous = setting }
        let found = try fixture.database.writeBlocking { try $0.connection.first("PRAGMA synchronous") { $0.int(0) } }
        #expect(found == number)
    }

    @Test("what was committed is there after closing and opening")
    func reopening() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { _ = try insertThing($0.connection, "kept") }
        fixture.database.close()
        #expect(fixture.folder.names == ["test.sqlite"], "the log was copied into the file")
        let again = try Database(path: fixture.folder.file())
        #expect(try countThings(again) == 1)
    }

    @Test("a read connection can't write")
    func readersDontWrite() throws {
        let fixture = try Fixture()
        let error = #expect(throws: SQLError.self) { try fixture.database.read { _ = try insertThing($0, "a") } }
        #expect(error?.code == .readOnly)
        #expect(throws: SQLError.self) { try fixture.database.snapshot { _ = try insertThing($0, "a") } }
        #expect(try fixture.count == 0)
    }

    @Test("reads go on after one has failed")
    func readersRecover() throws {
        let fixture = try Fixture()
        for _ in 0..<3 {
            #expect(throws: SQLError.self) { try fixture.database.read { _ = try insertThing($0, "a") } }
            #expect(throws: Refused.self) { try fixture.database.snapshot { _ in throw Refused() } }
            #expect(try fixture.count == 0)
        }
    }

    @Test("a snapshot sees one state, single reads see the newest")
    func snapshots() throws {
        let fixture = try Fixture()
        let database = fixture.database
        let counts = try database.snapshot { connection in
            let before = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            try database.writeBlocking { _ = try insertThing($0.connection, "meanwhile") }
            return [before, try connection.first("SELECT count(*) FROM things") { $0.int(0) }]
        }
        #expect(counts == [0, 0])
        let newest = try database.read { connection in
            let before = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            try database.writeBlocking { _ = try insertThing($0.connection, "again") }
            return [before, try connection.first("SELECT count(*) FROM things") { $0.int(0) }]
        }
        #expect(newest == [1, 2])
    }

    @Test("a survey sees one state, on a connection that nobody else gets and that is closed in any case")
    func survey() throws {
        let fixture = try Fixture()
        let database = fixture.database
        let seen = try database.survey { connection -> [Int64?] in
            let first = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            try database.writeBlocking { try insertThing($0.connection, "meanwhile") }
            return [first, try connection.first("SELECT count(*) FROM things") { $0.int(0) }, try countThings(database)]
        }
        #expect(seen == [0, 0, 1])
        #expect(throws: SQLError.self) { try database.survey { _ = try $0.run("DELETE FROM things") } }
        #expect(try fixture.count == 1)
        // A survey that still had the file open would keep the log from being emptied.
        try database.checkpoint(truncate: true)
        database.close()
        #expect(throws: SQLError.closed) { try database.survey { _ in } }
        #expect(fixture.folder.names == ["test.sqlite"])
    }

    @Test("reads inside reads and reads inside writes get connections of their own")
    func nested() throws {
        let fixture = try Fixture()
        let database = fixture.database
        let inner = try database.read { _ in try database.read { _ in try countThings(database) } }
        #expect(inner == 0)
        let seen = try database.writeBlocking { transaction in
            try insertThing(transaction.connection, "uncommitted")
            return try countThings(database)
        }
        #expect(seen == 0)
        #expect(try fixture.count == 1)
    }

    @Test("many threads read and write together")
    func manyThreads() async throws {
        let fixture = try Fixture { $0.synchronous = .off }
        let database = fixture.database
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<16 {
                group.addTask {
                    for number in 0..<50 {
                        let name = "\(task)-\(number)"
                        try await database.write { _ = try insertThing($0.connection, name) }
                        let found = try database.read {
                            try $0.first("SELECT count(*) FROM things WHERE name = ?1", name) { $0.int(0) }
                        }
                        #expect(found == 1)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try fixture.count == 800)
    }

    @Test("a checkpoint empties the log")
    func checkpoint() throws {
        let fixture = try Fixture()
        func logSize() throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: fixture.folder.file("test.sqlite-wal"))[.size] as? Int
        }
        #expect(try logSize() != 0)
        try fixture.database.checkpoint(truncate: false)
        try fixture.database.checkpoint(truncate: true)
        #expect(try logSize() == 0)
        #expect(try fixture.count == 0)
    }

    @Test("the log is copied into the file when it has grown enough", .endsIfItHangs)
    func automaticCheckpoint() async throws {
        let fixture = try Fixture { $0.walAutocheckpointPages = 10 }
        func fileSize() throws -> Int {
            let attributes = try FileManager.default.attributesOfItem(atPath: fixture.folder.file())
            return attributes[.size] as? Int ?? 0
        }
        let before = try fileSize()
        let big = [UInt8](repeating: 1, count: 200_000)
        for _ in 0..<3 {
            try await fixture.database.write { _ = try $0.connection.run("INSERT INTO things (data) VALUES (?1)", big) }
        }
        // The log is copied in the background.
        try await lookUntil { try fileSize() >= before + 2 * big.count }
    }

    @Test("a file that can't be opened is named together with the reason")
    func unopenable() throws {
        let folder = Folder()
        let missing = folder.file("nowhere/test.sqlite")
        let error = #expect(throws: SQLError.self) { try Database(path: missing) }
        #expect(error?.code.primary == .cantOpen)
        #expect(error?.message.contains("No such file or directory") == true)
        #expect(error?.message.contains(missing) == true)
        for name in ["", ":memory:", "a\0b"] {
            #expect(throws: SQLError.self) { try Database(path: name) }
        }
        try Data("not a database, but long enough to be taken for one. ".utf8).write(
            to: URL(fileURLWithPath: folder.file("text")))
        let other = #expect(throws: SQLError.self) { try Database(path: folder.file("text")) }
        #expect(other?.code == .notADatabase)
    }
}
