import SQLEngine
import SystemSupport
import TestSupport
import Testing

/// Connections that break, and servers that stop.
@Suite(.endsIfItHangs) struct PostgresOutageTests {
    private static func terminate(_ unit: Cells, by other: PostgresDatabase<Cells>) throws {
        let process = try unit.connection.first("SELECT pg_backend_pid()::bigint") { $0.int(0) } ?? 0
        _ = try other.readBlocking { try $0.run("SELECT pg_terminate_backend($1::int, 10000)", process) }
    }

    @Test("a connection that dies before the commit: the group runs again on another, once is written")
    func beforeCommit() async throws {
        let fixture = try PostgresFixture()
        let (database, other) = (fixture.database, try fixture.session())
        let runs = Counter()
        let results = await runPostgresGroup(
            database,
            [
                { $0.add(1, to: 1) },
                { unit throws in
                    runs.add()
                    unit.add(1, to: 2)
                    if runs.current == 1 {
                        try Self.terminate(unit, by: other)
                        try unit.connection.run("SELECT 1")
                    }
                },
            ])
        #expect(results == [nil, nil] && runs.current == 2)
        #expect(try fixture.value(1) == 1 && fixture.value(2) == 1)
    }

    @Test("a connection that died while nobody used it is replaced before anything is sent")
    func idle() async throws {
        let fixture = try PostgresFixture()
        let (database, other) = (fixture.database, try fixture.session())
        try await database.write { $0.add(1, to: 1) }
        for round in 2...4 {
            _ = try other.readBlocking {
                try $0.run(
                    """
                    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid()
                    """)
            }
            // No write in between that would tell.
            try await database.write { $0.add(1, to: Int64(round)) }
            #expect(try fixture.value(Int64(round)) == 1)
        }
    }

    @Test("a read whose connection had died is repeated on a fresh one; one that had an answer isn't")
    func reads() throws {
        let fixture = try PostgresFixture { $0.readConnections = 2 }
        let (database, other) = (fixture.database, try fixture.session())
        let process = try database.readBlocking { try $0.first("SELECT pg_backend_pid()") { $0.int(0) } } ?? 0
        _ = try other.readBlocking { try $0.run("SELECT pg_terminate_backend($1::int, 10000)", process) }
        #expect(try fixture.value(1) == 0)
        // Also when the end of the last snapshot is answered to the next borrower.
        for _ in 0..<3 {
            let process = try database.snapshotBlocking { try $0.first("SELECT pg_backend_pid()") { $0.int(0) } } ?? 0
            _ = try other.readBlocking { try $0.run("SELECT pg_terminate_backend($1::int, 10000)", process) }
            #expect(try database.snapshotBlocking { try $0.first("SELECT value FROM cells WHERE id = 1") { $0.int(0) } } == 0)
        }
        var runs = 0
        let error = sqlError {
            try database.readBlocking { connection throws in
                runs += 1
                let process = try connection.first("SELECT pg_backend_pid()") { $0.int(0) } ?? 0
                _ = try other.readBlocking { try $0.run("SELECT pg_terminate_backend($1::int, 10000)", process) }
                try connection.run("SELECT 1")
            }
        }
        #expect(error?.code == .connectionLost && error?.isUnavailable == true && runs == 1)
        #expect(try fixture.value(1) == 0)
    }

    @Test("a commit whose answer is lost is told as unknown, isn't repeated, and was done")
    func lostAnswer() async throws {
        let fixture = try PostgresFixture()
        let proxy = try PostgresProxy(to: PostgresServer.shared.get().port)
        let database = try PostgresDatabase<Cells>(PostgresAddress(proxy.address(of: fixture.text)), options: Self.one)
        try await database.write { $0.add(1, to: 1) }
        let runs = Counter()
        let results = await runPostgresGroup(
            database,
            [
                { unit throws in
                    runs.add()
                    unit.add(1, to: 2)
                    proxy.swallowAnswers()
                }, { $0.add(1, to: 3) },
            ])
        #expect(results.map { $0?.code } == [.commitUnknown, .commitUnknown])
        #expect(results[0]?.isUnavailable == true && results[0]?.sqlState == "08007")
        #expect(runs.current == 1)
        #expect(try fixture.value(2) == 1 && fixture.value(3) == 1)
        // It goes on with a new connection.
        proxy.pass()
        try await database.write(hints: [2]) { $0.add(1, to: 2) }
        #expect(try fixture.value(2) == 2)
    }

    @Test("a commit that the connection swallows is told as unknown too, and wasn't done")
    func lostQuestion() async throws {
        let fixture = try PostgresFixture()
        let proxy = try PostgresProxy(to: PostgresServer.shared.get().port)
        let database = try PostgresDatabase<Cells>(PostgresAddress(proxy.address(of: fixture.text)), options: Self.one)
        let results = await runPostgresGroup(
            database,
            [
                { unit throws in
                    unit.add(1, to: 2)
                    proxy.swallowQuestions()
                }
            ])
        #expect(results.map { $0?.code } == [.commitUnknown])
        #expect(try fixture.value(2) == 0)
    }

    /// The server says that the commit is done, and warns only.
    @Test("a commit that no standby has confirmed is told as unknown, although the server calls it done")
    func unconfirmed() async throws {
        let server = try PostgresServer()
        let fixture = try PostgresFixture(on: server)
        try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        // A server that only reads its settings again goes on to commit without waiting until its checkpointer has read them.
        server.stop(.fast)
        try server.start()
        let (database, other) = (try fixture.session { $0.answerMarginMilliseconds = 600_000 }, try fixture.session())
        let waiting = Task { try await database.write(hints: [2]) { $0.add(1, to: 2) } }
        try await lookUntil {
            try other.readBlocking {
                try $0.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            } > 0
        }
        let error = await failures([waiting])[0]
        #expect(error?.code == .commitUnknown && error?.isUnavailable == true)
        #expect(error?.message.contains("canceling wait") == true)
        #expect(try other.readBlocking { try $0.first("SELECT value FROM cells WHERE id = 2") { $0.int(0) } } == 1)
    }

    private static var one: PostgresOptions {
        var options = PostgresOptions()
        options.lanes = 1
        return options
    }

    @Test("a server that stops: writes wait for their patience, then fail; when it is back everything goes on")
    func restart() async throws {
        let server = try PostgresServer()
        let fixture = try PostgresFixture(on: server) {
            $0.patienceMilliseconds = 200
            $0.lanes = 2
        }
        let database = fixture.database
        try await database.write { $0.add(1, to: 1) }
        server.stop(.fast)
        let results = await failures((0..<6).map { lane in Task { try await database.write(lane: lane) { $0.add(1, to: 1) } } })
        #expect(results.allSatisfy { $0?.isUnavailable == true })
        #expect(sqlError { try fixture.value(1) }?.isUnavailable == true)
        #expect(database.refusals.count >= 6)
        try server.start()
        try await lookUntil { (try? fixture.value(1)) == 1 }
        // As long as the pause between two attempts is.
        var isBack = false
        while !isBack { isBack = await failures([Task { try await database.write(lane: 0) { $0.add(1, to: 2) } }]) == [nil] }
        #expect(try fixture.value(2) == 1)
    }

    @Test("a write that waits while the server restarts is done, once")
    func patience() async throws {
        let server = try PostgresServer()
        let fixture = try PostgresFixture(on: server) { $0.patienceMilliseconds = 600_000 }
        let database = fixture.database
        try await database.write { $0.add(1, to: 1) }
        server.stop(.immediate)
        let waiting = Task { try await database.write(hints: [1]) { $0.add(1, to: 1) } }
        try server.start()
        #expect(await failures([waiting]) == [nil])
        #expect(try fixture.value(1) == 2)
    }

    @Test("a server that says nothing: each read fails at its deadline, the waiting ones too, and holds no thread of its caller")
    func silent() async throws {
        let fixture = try PostgresFixture()
        let proxy = try PostgresProxy(to: PostgresServer.shared.get().port)
        var options = Self.one
        options.readConnections = 2
        options.readTimeoutMilliseconds = 300
        let database = try PostgresDatabase<Cells>(PostgresAddress(proxy.address(of: fixture.text)), options: options)
        let read: @Sendable () -> Task<Void, any Error> = {
            Task { try await database.read { _ = try $0.first("SELECT value FROM cells WHERE id = 1") { $0.int(0) } } }
        }
        // A machine that is busy takes longer for it than one read may.
        while await failures([read()]) != [nil] {}
        proxy.hold()
        let errors = await failures((0..<20).map { _ in read() })
        #expect(errors.allSatisfy { $0?.isUnavailable == true })
        proxy.pass()
        while await failures([read()]) != [nil] {}
    }

    @Test("as many reads are under way as there are connections, whoever calls")
    func atOnce() async throws {
        let fixture = try PostgresFixture { $0.readConnections = 5 }
        let database = fixture.database
        let (gate, inside) = (Gate(), Counter())
        let reads = (0..<8).map { _ in
            Task {
                try await database.snapshot { connection in
                    inside.add()
                    gate.stand()
                    try connection.run("SELECT 1")
                }
            }
        }
        await inside.until(5)
        gate.open()
        #expect(await failures(reads) == Array(repeating: nil, count: 8))
        #expect(inside.current == 8)
    }

    @Test("a database that is closed answers what waits, ends its idle connections, and lets a running read end")
    func closing() async throws {
        let fixture = try PostgresFixture { $0.readConnections = 1 }
        let (database, other) = (fixture.database, try fixture.session())
        let (gate, inside) = (Gate(), Counter())
        let running = Task {
            try await database.read { connection in
                inside.add()
                gate.stand()
                _ = try connection.run("SELECT 1")
            }
        }
        await inside.until(1)
        let waiting = Task { try await database.read { _ = try $0.run("SELECT 1") } }
        database.close()
        #expect(await failures([waiting]).map { $0?.code } == [.closed])
        gate.open()
        #expect(await failures([running]) == [nil])
        try await lookUntil {
            try other.readBlocking {
                try $0.first(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                ) { $0.int(0) }
            } == 0
        }
        #expect(await failures([Task { try await database.read { _ = try $0.run("SELECT 1") } }]).map { $0?.code } == [.closed])
    }

    @Test("a read that finds no free connection waits, and is unavailable in the end")
    func exhausted() async throws {
        let fixture = try PostgresFixture {
            $0.readConnections = 1
            $0.readTimeoutMilliseconds = 50
        }
        let database = fixture.database
        // The first read makes the thread, which may take longer than that to begin while the machine is busy.
        while sqlError({ try fixture.value(1) }) != nil {}
        try database.readBlocking { connection throws in
            let error = sqlError { try fixture.value(1) }
            #expect(error?.code == .busy && error?.isUnavailable == true)
            #expect(try connection.first("SELECT 1::bigint") { $0.int(0) } == 1)
        }
        #expect(try fixture.value(1) == 0)
        // Also after a read that fails.
        #expect(throws: Refused.self) { try database.snapshotBlocking { _ in throw Refused() } }
        #expect(try fixture.value(1) == 0)
        // One that waits gets it when it is free.
        let patient = try fixture.session { $0.readTimeoutMilliseconds = 600_000 }
        let gate = Gate()
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        let first = onThread {
            try patient.readBlocking { _ in
                continuation.finish()
                gate.stand()
            }
        }
        for await _ in entered {}
        let second = onThread { try patient.readBlocking { _ = try $0.run("SELECT 1") } }
        gate.open()
        #expect(await failures([first, second]) == [nil, nil])
    }
}
