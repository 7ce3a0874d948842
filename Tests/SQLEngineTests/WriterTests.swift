import Dispatch
import Foundation
import SQLEngine
import SystemSupport
import TestSupport
import Testing

@Suite("The writer commits in groups")
struct WriterTests {
    @Test("a write's result is answered after the commit")
    func result() async throws {
        let fixture = try Fixture()
        let id = try await fixture.database.write { transaction in
            try insertThing(transaction.connection, "a")
            return transaction.connection.lastInsertRowID
        }
        #expect(id == 1)
        #expect(try fixture.count == 1)
    }

    @Test("writes that wait are one transaction, in the order in which they came")
    func oneTransaction() async throws {
        let fixture = try Fixture()
        let database = fixture.database
        let seen = Counter()
        let results = await runGroup(
            database, after: { try insertThing($0, "0") },
            (1...20).map { number in
                { transaction in
                    try insertThing(transaction.connection, "\(number)")
                    // Readers see nothing of the group before it is committed.
                    if try countThings(database) == 0 { seen.add() }
                }
            })
        #expect(results == Array(repeating: nil, count: 21))
        #expect(seen.current == 20)
        #expect(try fixture.names == (0...20).map { "\($0)" })
    }

    @Test(
        "sizes of groups, times of commits and of the writes' statements are counted, also of a group that failed or went twice")
    func statistics() async throws {
        let fixture = try Fixture()
        let before = fixture.database.writerStatistics
        _ = await runGroup(
            fixture.database, after: { try insertThing($0, "0") },
            (1...4).map { number in { transaction in try insertThing(transaction.connection, "\(number)") } })
        // The one that stood at the gate takes those that came meanwhile into its transaction.
        let group = fixture.database.writerStatistics
        #expect(group.groupSizes.count == before.groupSizes.count + 1 && group.groupSizes.sum == before.groupSizes.sum + 5)
        #expect(group.groupSizes.counts[3] == before.groupSizes.counts[3] + 1, "five to eight writes")
        #expect(group.commitNanoseconds.count == before.commitNanoseconds.count + 1)
        #expect(group.commitNanoseconds.sum > before.commitNanoseconds.sum)
        #expect(group.holdNanoseconds.count == before.holdNanoseconds.count + 5)
        #expect(group.holdNanoseconds.sum > before.holdNanoseconds.sum)
        await #expect(throws: SQLError.self) {
            try await fixture.database.write { transaction in
                try insertThing(transaction.connection, "5")
                try insertThing(transaction.connection, "5")
            }
        }
        let failed = fixture.database.writerStatistics
        #expect(failed.groupSizes.count == group.groupSizes.count + 1 && failed.groupSizes.sum == group.groupSizes.sum + 1)
        #expect(failed.commitNanoseconds.count == group.commitNanoseconds.count, "nothing was committed")
        #expect(failed.holdNanoseconds.count > group.holdNanoseconds.count, "it held the writer all the same")
    }

    @Test("a write that throws is undone alone, wherever it stands in its group", arguments: 0...4)
    func isolation(_ bad: Int) async throws {
        let fixture = try Fixture()
        let results = await runGroup(
            fixture.database,
            (0...4).map { number in
                { transaction in
                    try insertThing(transaction.connection, "\(number)")
                    if number == bad {
                        try insertThing(transaction.connection, "half done")
                        try insertThing(transaction.connection, "\(number)")
                    }
                }
            })
        let expected = (-1...4).map { $0 == bad ? ResultCode.constraintUnique : nil }
        #expect(results.map { $0?.code } == expected)
        #expect(try fixture.names == (0...4).filter { $0 != bad }.map { "\($0)" })
    }

    @Test("the first write of a group may throw, and the whole group too")
    func allThrow() async throws {
        let fixture = try Fixture()
        let results = await runGroup(
            fixture.database,
            after: { connection in
                try insertThing(connection, "gone")
                throw SQLError(code: .interrupt)
            },
            [
                { transaction in
                    try insertThing(transaction.connection, "gone too")
                    throw SQLError(code: .abort)
                },
                { _ = try insertThing($0.connection, "stays") },
            ])
        #expect(results.map { $0?.code } == [.interrupt, .abort, nil])
        #expect(try fixture.names == ["stays"])
    }

    @Test("an error of the closure comes back as it is, and undoes what the closure did")
    func ownErrors() throws {
        let fixture = try Fixture()
        #expect(throws: Refused()) {
            try fixture.database.writeBlocking { transaction in
                try insertThing(transaction.connection, "a")
                throw Refused()
            }
        }
        #expect(try fixture.count == 0)
    }

    @Test("a foreign key broken at the end of a write fails that write and no other")
    func deferredForeignKey() async throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking {
            try $0.connection.script(
                "CREATE TABLE parts (thing INTEGER NOT NULL REFERENCES things (id) DEFERRABLE INITIALLY DEFERRED) STRICT")
        }
        let results = await runGroup(
            fixture.database,
            [
                { _ = try insertThing($0.connection, "before") },
                { _ = try $0.connection.run("INSERT INTO parts VALUES (99)") },
                { transaction in
                    try transaction.connection.run("INSERT INTO parts VALUES (50)")
                    try transaction.connection.run("INSERT INTO things (id, name) VALUES (50, 'in time')")
                },
            ])
        #expect(results.map { $0?.code } == [nil, nil, .constraintForeignKey, nil])
        #expect(try fixture.names == ["before", "in time"])
    }

    @Test("a lock held by somebody else fails the whole group with busy, and the next one works")
    func busy() async throws {
        let fixture = try Fixture { $0.busyTimeoutMilliseconds = 0 }
        let other = try Database(path: fixture.folder.file())
        let gate = Gate()
        let holder = await gate.close(other) { try insertThing($0, "other") }
        let error = await failures([
            Task { [database = fixture.database] in
                try await database.write { _ = try insertThing($0.connection, "refused") }
            }
        ])
        #expect(error.first??.code == .busy)
        #expect(error.first??.isUnavailable == true)
        #expect(try fixture.count == 0, "reads go on")
        gate.open()
        try await holder.value
        try await fixture.database.write { _ = try insertThing($0.connection, "own") }
        #expect(try fixture.names == ["other", "own"])
    }

    @Test("when SQLite gives the transaction up by itself, everybody in it is told, and the next group works")
    func automaticRollback() async throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { try $0.connection.script("PRAGMA max_page_count = 10") }
        let results = await runGroup(
            fixture.database, after: { try insertThing($0, "lost") },
            [
                { transaction in
                    let big = [UInt8](repeating: 7, count: 200_000)
                    #expect(throws: SQLError.self) {
                        try transaction.connection.run("INSERT INTO things (data) VALUES (?1)", big)
                    }
                    // Swallowing the error doesn't help: outside the transaction this would be kept by itself.
                    let error = #expect(throws: SQLError.self) { try insertThing(transaction.connection, "alone") }
                    #expect(error?.code == .full)
                },
                { _ = try insertThing($0.connection, "later") },
            ])
        #expect(results.map { $0?.code } == [.full, .full, .full])
        #expect(try fixture.count == 0)
        try await fixture.database.write { _ = try insertThing($0.connection, "fits") }
        #expect(try fixture.names == ["fits"])
    }

    @Test("when COMMIT fails, everybody in the group is told, nothing is kept, and it works again when the disk does")
    func failingCommit() async {
        await #expect(processExitsWith: .success) {
            let fixture = try Fixture()
            try await fixture.database.write { _ = try insertThing($0.connection, "before") }
            var makeRoom = {}
            // COMMIT is where the log grows.
            let results = await runGroup(
                fixture.database, after: { try insertThing($0, "a") }, [{ _ = try insertThing($0.connection, "b") }, { _ in }],
                meanwhile: { makeRoom = fillDisk() })
            try #require(results.count == 3)
            for result in results {
                try #require(result?.isUnavailable == true)
                try #require(result?.sql == "COMMIT")
            }
            try #require(try fixture.names == ["before"])
            makeRoom()
            try await fixture.database.write { _ = try insertThing($0.connection, "after") }
            try #require(try fixture.names == ["before", "after"])
        }
    }

    @Test("a full queue refuses at once, and takes writes again when it has been emptied")
    func queueFull() async throws {
        let fixture = try Fixture { $0.writerQueueLimit = 2 }
        let database = fixture.database
        let gate = Gate()
        let first = await gate.close(database)
        let waiting = await queueUp(
            database, [{ _ = try insertThing($0.connection, "1") }, { _ = try insertThing($0.connection, "2") }])
        let refused = await failures([Task { try await database.write { _ = try insertThing($0.connection, "3") } }])
        #expect(refused == [SQLError.queueFull])
        #expect(throws: SQLError.queueFull) { try database.checkpoint(truncate: false) }
        #expect(try fixture.count == 0, "reads go on")
        gate.open()
        #expect(await failures([first] + waiting) == [nil, nil, nil])
        try await database.write { _ = try insertThing($0.connection, "4") }
        #expect(try fixture.names == ["1", "2", "4"])
    }

    @Test("a group holds no more writes than allowed, and the rest follows")
    func batchLimit() async throws {
        let fixture = try Fixture { $0.writerBatchLimit = 3 }
        let database = fixture.database
        let unseen = Counter()
        let results = await runGroup(
            database,
            (1...8).map { number in
                { transaction in
                    try insertThing(transaction.connection, "\(number)")
                    let uncommitted = try transaction.connection.first("SELECT count(*) FROM things") { $0.int(0) } ?? 0
                    if uncommitted - (try countThings(database)) > 3 { unseen.add() }
                }
            })
        #expect(results == Array(repeating: nil, count: 9))
        #expect(unseen.current == 0)
        #expect(try fixture.count == 8)
    }

    @Test("a checkpoint keeps its place between the writes")
    func checkpointInOrder() async throws {
        let fixture = try Fixture()
        let database = fixture.database
        let gate = Gate()
        let first = await gate.close(database)
        let before = await queueUp(database, [{ _ = try insertThing($0.connection, "1") }])
        let checkpoint = onThread { try database.checkpoint(truncate: true) }
        try await lookUntil { database.waitingWrites == 2 }
        let after = await queueUp(database, [{ _ = try insertThing($0.connection, "2") }])
        gate.open()
        try await checkpoint.value
        #expect(await failures([first] + before + after) == [nil, nil, nil])
        #expect(try fixture.names == ["1", "2"])
    }

    @Test("closing does what waits and refuses what comes; closing twice is closing once")
    func close() async throws {
        let fixture = try Fixture()
        let database = fixture.database
        let gate = Gate()
        let first = await gate.close(database)
        let waiting = await queueUp(database, [{ _ = try insertThing($0.connection, "in time") }])
        let closing = onThread { database.close() }
        // The queue is refused from the moment on in which the closing begins.
        var refusal: SQLError?
        try await lookUntil {
            do { _ = try database.read { _ in } } catch { refusal = error as? SQLError }
            return refusal != nil
        }
        #expect(refusal == .closed)
        gate.open()
        try await closing.value
        database.close()
        #expect(await failures([first] + waiting) == [nil, nil])
        #expect(throws: SQLError.closed) { try database.writeBlocking { _ = try insertThing($0.connection, "too late") } }
        #expect(throws: SQLError.closed) { try database.checkpoint(truncate: true) }
        await #expect(throws: SQLError.closed) { try await database.write { _ in } }
        let again = try Database(path: fixture.folder.file())
        #expect(try countThings(again) == 1)
    }

    @Test("a database that nobody holds any more closes by itself, also when a write was its last holder")
    func lastHolder() async throws {
        let folder = Folder()
        let task = try await { () async throws -> Task<Void, any Error> in
            let database = try Database(path: folder.file())
            try await database.write { try $0.connection.script("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)") }
            let gate = Gate()
            let task = await gate.close(database) { connection in
                _ = try insertThing(connection, "\(database.file.path.isEmpty)")
            }
            gate.open()
            return task
        }()
        try await task.value
        let again = try Database(path: folder.file())
        #expect(try countThings(again) == 1)
    }
}
