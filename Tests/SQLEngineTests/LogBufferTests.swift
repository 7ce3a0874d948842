import Foundation
import SQLEngine
import Synchronization
import TestSupport
import Testing

/// The pages that the writer gathers before it goes to the write-ahead log, seen from other connections.
@Suite("The log's buffer", .serialized)  // there is one disk that gets full
struct LogBufferTests {
    /// Larger than the buffer, so that a transaction goes out in parts, and its pages are read again before its end.
    @Test("a transaction larger than the buffer is whole for readers, for the next to open the file and for SQLite's own check")
    func large() async throws {
        let fixture = try Fixture {
            $0.synchronous = .full
            $0.writerCacheKibibytes = 512
        }
        for round in 0..<4 {
            try await fixture.database.write { transaction in
                for number in 0..<400 {
                    let text = String(repeating: "\(number % 10)", count: 10_000)
                    try insertThing(transaction.connection, "\(round) \(number) \(text)")
                }
                // Touches pages that were written to the log already, if the cache is small.
                try transaction.connection.run("UPDATE things SET name = name || '.'")
            }
            #expect(try fixture.count == Int64(round + 1) * 400)
            let damage = try fixture.database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
            #expect(damage == "ok")
        }
        let names = try fixture.names
        fixture.database.close()
        let again = try Database(path: fixture.folder.file())
        defer { again.close() }
        #expect(try again.read { try $0.all("SELECT name FROM things ORDER BY id") { $0.text(0) } } == names)
    }

    @Test("every commit is in the file system before its caller is answered: a copy of the files holds it")
    func copied() async throws {
        let fixture = try Fixture { $0.synchronous = .full }
        for number in 0..<50 {
            try await fixture.database.write { try insertThing($0.connection, "\(number)") }
            let copy = fixture.folder.file() + ".copy"
            for suffix in ["", "-wal"] {
                try? FileManager.default.removeItem(atPath: copy + suffix)
                try FileManager.default.copyItem(atPath: fixture.folder.file() + suffix, toPath: copy + suffix)
            }
            try? FileManager.default.removeItem(atPath: copy + "-shm")
            let other = try Database(path: copy)
            #expect(try countThings(other) == Int64(number) + 1)
            other.close()
        }
    }
}

extension LogBufferTests {
    @Test("what a rolled back transaction left in the buffer never reaches the log, where another process has written since")
    func rolledBack() async throws {
        struct Undone: Error {}
        // So small a cache that the transaction spills into the log, so that bytes of it are gathered.
        let fixture = try Fixture {
            $0.synchronous = .full
            $0.writerCacheKibibytes = 16
        }
        try await fixture.database.write { try insertThing($0.connection, "before") }
        let other = try Database(path: fixture.folder.file())
        for round in 0..<3 {
            let spilled = Task {
                try await fixture.database.write { transaction in
                    for number in 0..<200 {
                        try insertThing(transaction.connection, "\(number) " + String(repeating: "x", count: 4_000))
                    }
                    throw Undone()
                }
            }
            await #expect(throws: Undone.self) { try await spilled.value }
            try other.writeBlocking { try insertThing($0.connection, "other \(round)") }
            try await fixture.database.write { try insertThing($0.connection, "after \(round)") }
        }
        other.close()
        let damage = try fixture.database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
        #expect(damage == "ok")
        #expect(try fixture.names == ["before"] + (0..<3).flatMap { ["other \($0)", "after \($0)"] })
    }
}

extension LogBufferTests {
    /// A page that went to the log in parts is read back while the rest of it is still gathered; just then the disk is full.
    /// SQLite undoes one statement only, and the next one's pages must not hide the gap.
    @Test("a disk that is full for one statement fails its whole group, and nothing of it is ever seen")
    func fullForAMoment() async throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Fixture {
            $0.synchronous = .full
            $0.writerCacheKibibytes = 160
        }
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                "CREATE TABLE pages (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0), data BLOB) STRICT")
            for number in 1...300 { try transaction.connection.run("INSERT INTO pages VALUES (?1, 0, zeroblob(7000))", number) }
        }
        try fixture.database.checkpoint(truncate: true)
        let log = try TestDisk.file(fixture.folder.file() + "-wal")

        let gate = Gate()
        let first = await gate.close(fixture.database)
        let write: @Sendable (@escaping @Sendable (Transaction) throws -> Void) -> Task<Void, any Error> = { body in
            Task { try await fixture.database.write(body) }
        }
        let mark: @Sendable (Connection, ClosedRange<Int>) throws -> Void = { connection, ids in
            for id in ids { try connection.run("UPDATE pages SET n = 1 WHERE id = ?1", id) }
        }
        var group = [
            write { connection in
                try mark(connection.connection, 1...60)
                _ = try connection.connection.first("SELECT n FROM pages WHERE id = 1") { $0.int(0) }
            }
        ]
        try await fixture.database.waits(for: 1)
        group.append(
            write { connection in
                try mark(connection.connection, 101...140)
                for id in [2, 5, 9] { try mark(connection.connection, id...id) }
            })
        try await fixture.database.waits(for: 2)
        group.append(
            write { connection in
                TestDisk.fill(log)
                defer { TestDisk.empty(log) }
                try connection.connection.run("UPDATE pages SET n = n + 1 WHERE id BETWEEN 20 AND 60")
            })
        try await fixture.database.waits(for: 3)
        group.append(write { try mark($0.connection, 2...2) })
        try await fixture.database.waits(for: 4)
        gate.open()
        _ = try? await first.value
        for task in group { await #expect(throws: SQLError.self) { try await task.value } }

        #expect(TestDisk.refusals.load(ordering: .relaxed) > 0)

        try check(fixture.folder.file())
        // And so does who opens the file after a crash.
        let copy = fixture.folder.file() + ".copy"
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: fixture.folder.file() + suffix, toPath: copy + suffix)
        }
        try check(copy)
        try await fixture.database.write { try mark($0.connection, 1...1) }
        #expect(try fixture.database.read { try $0.first("SELECT sum(n) FROM pages") { $0.int(0) } } == 1)
    }

    private func check(_ path: String) throws {
        let database = try Database(path: path)
        defer { database.close() }
        let damage = try database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
        #expect(damage == "ok")
        let seen = try database.read { try $0.first("SELECT sum(n) FROM pages") { $0.int(0) } }
        #expect(seen == 0)
    }
}

extension Database {
    /// Waits until that many writes stand in the queue.
    fileprivate func waits(for count: Int) async throws {
        try await lookUntil { waitingWrites >= count }
    }
}

extension LogBufferTests {
    private func length(_ fixture: Fixture) throws -> Int {
        try FileManager.default.attributesOfItem(atPath: fixture.folder.file() + "-wal")[.size] as? Int ?? -1
    }

    private func rehearse(_ fixture: Fixture) async throws {
        try await fixture.database.rehearse { connection in
            try connection.connection.run("INSERT INTO things (name, data) VALUES ('rehearsed', zeroblob(?1))", 128 << 10)
        }
    }

    @Test("a rehearsal needs the room on the disk that the write would need, and leaves nothing behind")
    func rehearsal() async throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Fixture { $0.synchronous = .full }
        try await fixture.database.write { try insertThing($0.connection, "before") }
        let before = try length(fixture)
        let log = try TestDisk.file(fixture.folder.file() + "-wal")
        let asked = TestDisk.refusals.load(ordering: .relaxed)
        for isFull in [false, true, false] {
            if isFull { TestDisk.fill(log) }
            defer { TestDisk.empty(log) }
            if isFull {
                let error = await #expect(throws: SQLError.self) { try await rehearse(fixture) }
                #expect(error == SQLError(code: .full))
                #expect(fixture.database.refusals.last == error)
            } else {
                try await rehearse(fixture)
            }
            #expect(try length(fixture) == before)
            #expect(try fixture.names == ["before"])
        }
        #expect(TestDisk.refusals.load(ordering: .relaxed) > asked)
        try await fixture.database.write { try insertThing($0.connection, "after") }
        #expect(try fixture.names == ["before", "after"])
        let damage = try fixture.database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
        #expect(damage == "ok")
    }

    @Test("a rehearsal that fits into the log as it is writes nothing")
    func rehearsalWithin() async throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Fixture { $0.synchronous = .full }
        let text = String(repeating: "x", count: 1 << 20)
        try await fixture.database.write { try insertThing($0.connection, text) }
        try fixture.database.checkpoint(truncate: false)
        // Begins the log anew, at its start.
        try await fixture.database.write { try insertThing($0.connection, "small") }
        let log = try TestDisk.file(fixture.folder.file() + "-wal")
        TestDisk.fill(log)
        defer { TestDisk.empty(log) }
        try await rehearse(fixture)
        await #expect(throws: SQLError.self) {
            try await fixture.database.write { try insertThing($0.connection, "the control") }
        }
    }
}
