import SQLEngine
import SystemSupport
import TestSupport
import Testing

@Suite(.endsIfItHangs) struct PostgresLaneTests {
    @Test("writes that wait are one transaction, in the order in which they came")
    func group() async throws {
        let fixture = try PostgresFixture()
        let database = fixture.database
        let results = await runPostgresGroup(
            database,
            (1...20).map { number in
                { unit throws in
                    #expect(unit.values[1, default: 0] == number - 1)
                    unit.add(1, to: 1)
                    // Readers see nothing of the group before it is committed.
                    #expect(try database.readBlocking { try $0.first("SELECT value FROM cells WHERE id = 1") { $0.int(0) } } == 0)
                }
            })
        #expect(results == Array(repeating: nil, count: 20))
        #expect(try fixture.value(1) == 20)
        #expect(database.lastGroup == 20)
        #expect(database.writerStatistics.groupSizes.count == 2)
        #expect(database.writerStatistics.commitNanoseconds.count == 2)
    }

    @Test("a write sees what was committed, by its hints, and the time when it began")
    func prepared() async throws {
        let fixture = try PostgresFixture { $0.clock = { 1_234 } }
        let database = fixture.database
        try await database.write(hints: [3]) { $0.add(5, to: 3) }
        let seen = try await database.write(hints: [3]) { unit in (unit.values[3], unit.transaction.milliseconds) }
        #expect(seen.0 == 5 && seen.1 == 1_234)
    }

    @Test("a write that fails before it has changed anything spoils no other, and the group goes once")
    func failsUnchanged() async throws {
        let fixture = try PostgresFixture()
        let runs = Counter()
        let results = await runPostgresGroup(
            fixture.database,
            [
                { unit throws in
                    runs.add()
                    unit.add(1, to: 1)
                }, { _ in throw SQLError(code: .abort) },
                { unit in unit.add(1, to: 2) },
            ])
        #expect(results.map { $0?.code } == [nil, .abort, nil])
        #expect(try fixture.value(1) == 1 && fixture.value(2) == 1)
        #expect(runs.current == 1)
    }

    @Test(
        "a write that fails after it has changed something, or by the server's word, spoils no other",
        arguments: [0, 1, 2, 3])
    func failsChanged(_ how: Int) async throws {
        let fixture = try PostgresFixture()
        let results = await runPostgresGroup(
            fixture.database,
            [
                { unit in unit.add(1, to: 1) },
                { unit throws in
                    switch how {
                    case 0: unit.add(1, to: 1)
                    case 1: try unit.connection.run("UPDATE cells SET value = 9 WHERE id = 1")
                    case 2: _ = try? unit.connection.run("INSERT INTO cells VALUES (1, 1)")
                    default: try unit.connection.queue("INSERT INTO cells VALUES (1, 1)")
                    }
                    throw SQLError(code: .abort)
                },
                { unit in unit.add(1, to: 2) },
            ])
        #expect(results.map { $0?.code } == [nil, .abort, nil])
        #expect(try fixture.value(1) == 1 && fixture.value(2) == 1)
    }

    @Test("a write that only the flush shows to be wrong spoils no other")
    func failsInFlush() async throws {
        let fixture = try PostgresFixture()
        let results = await runPostgresGroup(
            fixture.database,
            [
                { unit in unit.add(1, to: 1) }, { unit in unit.add(5_000_000, to: 3) }, { unit in unit.add(1, to: 2) },
            ])
        #expect(results.map { $0?.sqlState } == [nil, "23514", nil])
        #expect(try fixture.value(1) == 1 && fixture.value(2) == 1 && fixture.value(3) == 0)
    }

    @Test("effects run after the commit and before the answer, and a rolled-back write's are undone")
    func effects() async throws {
        let fixture = try PostgresFixture()
        let (told, committed, undone) = (Counter(), Counter(), Counter())
        fixture.database.onCommit { changes in
            #expect(changes == [1, 2])
            told.add()
        }
        let results = await runPostgresGroup(
            fixture.database,
            [
                { unit throws in
                    unit.transaction.changed(1)
                    unit.transaction.changed(2)
                    unit.transaction.afterCommit { committed.add() }
                },
                { unit throws in
                    unit.transaction.changed(3)
                    unit.transaction.afterCommit { committed.add() }
                    unit.transaction.onRollback { undone.add() }
                    throw SQLError(code: .abort)
                },
            ])
        #expect(results.map { $0?.code } == [nil, .abort])
        #expect(told.current == 1 && committed.current == 1 && undone.current == 1)
    }

    @Test("a full queue and a closed database refuse; what waited at the close is done")
    func limits() async throws {
        let fixture = try PostgresFixture { $0.laneQueueLimit = 1 }
        let database = fixture.database
        let gate = Gate()
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        let first = Task {
            try await database.write { unit throws in
                continuation.finish()
                gate.stand()
                unit.add(1, to: 1)
            }
        }
        for await _ in entered {}
        let second = Task { try await database.write { $0.add(1, to: 2) } }
        try await lookUntil { database.waitingWrites == 1 }
        await #expect(throws: SQLError.queueFull) { try await database.write { $0.add(1, to: 3) } }
        #expect(database.refusals.count == 1 && database.refusals.last == .queueFull)
        let closing = onThread { database.close() }
        gate.open()
        #expect(await failures([first, second, closing]) == [nil, nil, nil])
        await #expect(throws: SQLError.closed) { try await database.write { $0.add(1, to: 3) } }
        #expect(sqlError { try fixture.value(1) } == .closed)
        let other = try fixture.session()
        #expect(try other.readBlocking { try $0.first("SELECT sum(value)::bigint FROM cells") { $0.int(0) } } == 2)
    }

    @Test("writes with the same first hint take the same lane; others are spread")
    func lanes() async throws {
        let fixture = try PostgresFixture { $0.lanes = 4 }
        let database = fixture.database
        func session(_ hints: [Int64]) async throws -> Int64 {
            try await database.write(hints: hints) { try $0.connection.first("SELECT pg_backend_pid()") { $0.int(0) } ?? 0 }
        }
        var own: Set<Int64> = []
        for _ in 0..<5 { own.insert(try await session([7, 8])) }
        #expect(own.count == 1)
        var spread: Set<Int64> = []
        for _ in 0..<8 { spread.insert(try await session([])) }
        #expect(spread.count == 4)
        let chosen = try await database.write(lane: 2) { try $0.connection.first("SELECT pg_backend_pid()") { $0.int(0) } }
        let again = try await database.write(lane: 2) { try $0.connection.first("SELECT pg_backend_pid()") { $0.int(0) } }
        #expect(again == chosen)
    }

    @Test("commits wait for the disk, whatever the role's setting says")
    func synchronous() throws {
        let fixture = try PostgresFixture()
        try fixture.database.writeBlocking { try $0.connection.script("ALTER ROLE owner SET synchronous_commit = off") }
        defer {
            _ = try? fixture.database.writeBlocking { try $0.connection.script("ALTER ROLE owner RESET synchronous_commit") }
        }
        let own = try fixture.session()
        #expect(own.synchronousCommit == "on")
        #expect(try own.writeBlocking { try $0.connection.first("SHOW synchronous_commit") { $0.text(0) } } == "on")
        let control = try fixture.session { $0.losesCommits = true }
        #expect(try control.writeBlocking { try $0.connection.first("SHOW synchronous_commit") { $0.text(0) } } == "off")
    }

    @Test("a connection hears the server's warnings, whatever the database's setting says: a commit without its standby is one")
    func warnings() throws {
        let fixture = try PostgresFixture()
        try fixture.database.writeBlocking {
            try $0.connection.script(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_min_messages = error', current_database()); END $$")
        }
        let own = try fixture.session()
        #expect(try own.writeBlocking { try $0.connection.first("SHOW client_min_messages") { $0.text(0) } } == "warning")
    }
}
