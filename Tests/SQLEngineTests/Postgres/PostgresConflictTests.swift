import SQLEngine
import SystemSupport
import TestSupport
import Testing

/// The effects of other transactions on a lane's.
@Suite(.endsIfItHangs) struct PostgresConflictTests {
    private let fixture: PostgresFixture

    init() throws { fixture = try PostgresFixture() }

    /// A repeatable-read transaction that updates what another has updated since its first statement.
    @Test("a serialization failure runs the writes again")
    func serialization() async throws {
        let (database, other) = (fixture.database, try fixture.session())
        let runs = Counter()
        try await database.write { unit throws in
            runs.add()
            // As an engine does that has no weaker isolation. The engine's BEGIN is behind it already, so this is first.
            try unit.connection.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            let seen = try unit.connection.first("SELECT value FROM cells WHERE id = 1") { $0.int(0) } ?? 0
            if runs.current <= 3 { try other.writeBlocking(hints: [1]) { $0.add(10, to: 1) } }
            try unit.connection.run("UPDATE cells SET value = $1 WHERE id = 1", seen + 1)
        }
        #expect(runs.current == 4)
        #expect(try fixture.value(1) == 31)
    }

    @Test("after ten serialization failures a write is unavailable, and nothing of it stays")
    func serializationForEver() async throws {
        let runs = Counter()
        let database = fixture.database
        let error = await failures([
            Task {
                try await database.write { unit throws in
                    runs.add()
                    unit.add(1, to: 1)
                    try unit.connection.run("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$")
                }
            }
        ])
        #expect(error.first??.code == .serialization && error.first??.isUnavailable == true)
        #expect(runs.current == 11)
        #expect(try fixture.value(1) == 0)
    }

    @Test("the one that a deadlock ends runs again, and both are done")
    func deadlock() async throws {
        let (database, other) = (fixture.database, try fixture.session())
        let (here, there, done, runs) = (Gate(), Gate(), Gate(), Counter())
        let sides = [(database, Int64(1), Int64(2), here, there), (other, 2, 1, there, here)]
        let tasks = sides.map { database, first, second, own, others in
            Task {
                try await database.write { unit throws in
                    runs.add()
                    // Sooner it might take its row before the other, which waits for it, has woken up: the two would meet again.
                    if runs.current > 2 { done.stand() }
                    try unit.connection.run("UPDATE cells SET value = value + 1 WHERE id = $1", first)
                    own.open()
                    others.stand()
                    try unit.connection.run("UPDATE cells SET value = value + 1 WHERE id = $1", second)
                }
                done.open()
            }
        }
        #expect(await failures(tasks) == [nil, nil])
        #expect(try fixture.value(1) == 2 && fixture.value(2) == 2)
        // One of them ran twice.
        #expect(runs.current == 3)
    }

    /// Another session holds the row 1 until the gate opens.
    private func holdFirstRow() async -> (gate: Gate, held: Task<Void, any Error>) {
        let (gate, holder) = (Gate(), fixture.database)
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        let held = Task {
            try await holder.write(hints: [1]) { _ in
                continuation.finish()
                gate.stand()
            }
        }
        for await _ in entered {}
        return (gate, held)
    }

    @Test("a lock that another session holds for too long fails the write that needs it, and no other of its group")
    func lockTimeout() async throws {
        let database = try fixture.session { $0.lockTimeoutMilliseconds = 100 }
        let (gate, held) = await holdFirstRow()
        let results = await runPostgresGroup(
            database,
            [
                { $0.add(1, to: 2) },
                { try $0.connection.run("UPDATE cells SET value = 1 WHERE id = 1") },
                { $0.add(1, to: 3) },
            ])
        #expect(results.map { $0?.sqlState } == [nil, "55P03", nil])
        #expect(results[1]?.code == .busy && results[1]?.isUnavailable == true)
        gate.open()
        #expect(await failures([held]) == [nil])
        #expect(try fixture.value(2) == 1 && fixture.value(3) == 1)
    }

    @Test("writes that want what another session holds fail, and nobody behind them does")
    func lockedTogether() async throws {
        let database = try fixture.session { $0.lockTimeoutMilliseconds = 100 }
        let (gate, held) = await holdFirstRow()
        let add: @Sendable (Cells) throws -> Void = { $0.add(1, to: 2) }
        let locked: @Sendable (Cells) throws -> Void = { $0.add(1, to: 1) }
        let results = await runPostgresGroup(
            database, hints: [[1], [1], [1], [2], [1], [2]], [locked, locked, locked, add, locked, add])
        #expect(results.map { $0?.sqlState } == ["55P03", "55P03", "55P03", nil, "55P03", nil])
        gate.open()
        #expect(await failures([held]) == [nil])
        #expect(try fixture.value(1) == 0 && fixture.value(2) == 2)
    }

    @Test("writes that name the locked one first, and each something else, fail nobody behind them either")
    func lockedWithOthers() async throws {
        let database = try fixture.session { $0.lockTimeoutMilliseconds = 100 }
        let (gate, held) = await holdFirstRow()
        let locked: @Sendable (Cells) throws -> Void = { $0.add(1, to: 1) }
        let results = await runPostgresGroup(
            database, hints: [[1, 11], [1, 12], [1, 13], [2, 14]], [locked, locked, locked, { $0.add(1, to: 2) }])
        #expect(results.map { $0?.sqlState } == ["55P03", "55P03", "55P03", nil])
        gate.open()
        #expect(await failures([held]) == [nil])
        #expect(try fixture.value(1) == 0 && fixture.value(2) == 1)
    }

    @Test("a write that names many, one of which another session holds, says nothing of the first of them")
    func lockedAmongMany() async throws {
        let database = try fixture.session { $0.lockTimeoutMilliseconds = 100 }
        let (gate, held) = await holdFirstRow()
        let results = await runPostgresGroup(database, hints: [[2, 1], [2]], [{ $0.add(1, to: 3) }, { $0.add(1, to: 2) }])
        #expect(results.map { $0?.sqlState } == ["55P03", nil])
        gate.open()
        #expect(await failures([held]) == [nil])
        #expect(try fixture.value(2) == 1 && fixture.value(3) == 0)
    }

    @Test("a statement that takes too long is ended by the server, and the connection stays")
    func statementTimeout() throws {
        let database = try fixture.session {
            $0.statementTimeoutMilliseconds = 5_000
            $0.answerMarginMilliseconds = 600_000
        }
        try database.readBlocking { connection throws in
            let error = sqlError { try connection.run("SELECT pg_sleep(600)") }
            #expect(error?.sqlState == "57014" && error?.isUnavailable == true)
            #expect(try connection.first("SELECT 1::bigint") { $0.int(0) } == 1)
        }
    }

    @Test("a server that doesn't answer is given up, and asked to stop")
    func deadline() async throws {
        let database = try fixture.session {
            $0.statementTimeoutMilliseconds = 0
            $0.answerMarginMilliseconds = 3_000
        }
        func answers() async throws {
            try await lookUntil {
                do {
                    return try database.readBlocking { try $0.first("SELECT 1::bigint") { $0.int(0) } } == 1
                } catch let error as SQLError where error.code == .connectionLost {
                    return false
                }
            }
        }
        try await answers()
        let error = sqlError { try database.readBlocking { try $0.run("SELECT pg_sleep(600), 'deadline'") } }
        #expect(error?.code == .connectionLost && error?.isUnavailable == true)
        try await lookUntil {
            try fixture.database.readBlocking {
                try $0.first(
                    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%''deadline''%' AND pid <> pg_backend_pid()"
                ) { $0.int(0) }
            } == 0
        }
        try await answers()
    }
}
