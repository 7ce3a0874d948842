import SQLEngine
import TestSupport
import Testing

@Suite(.endsIfItHangs) struct PostgresReadTests {
    private let fixture: PostgresFixture

    init() throws { fixture = try PostgresFixture() }

    private func add() throws { try fixture.database.writeBlocking(hints: [1]) { $0.add(1, to: 1) } }

    private func value(_ connection: PostgresConnection) throws -> Int64? {
        try connection.first("SELECT value FROM cells WHERE id = 1") { $0.int(0) }
    }

    @Test("each statement of a read sees the newest state; all of a snapshot see one")
    func views() throws {
        try fixture.database.readBlocking { connection throws in
            #expect(try value(connection) == 0)
            try add()
            #expect(try value(connection) == 1)
        }
        try fixture.database.snapshotBlocking { connection throws in
            #expect(try value(connection) == 1)
            try add()
            #expect(try value(connection) == 1)
        }
        #expect(try fixture.value(1) == 2)
    }

    @Test("NULL where none may be is an error of its call, and neither the session nor the next call knows of it")
    func damage() throws {
        try fixture.database.readBlocking { connection throws in
            for kind in 1...4 {
                let error = #expect(throws: SQLError.self) {
                    switch kind {
                    case 1: _ = try connection.first("SELECT 1, NULL::bigint") { $0.int(1) }
                    case 2: _ = try connection.all("SELECT 1, NULL::text") { $0.text(1) }
                    case 3: _ = try connection.first("SELECT 1, NULL::boolean") { $0.bool(1) }
                    default: try connection.forEach("SELECT 1, NULL::bytea") { _ = $0.bytes(1).count }
                    }
                }
                #expect(error?.code == .corrupt && error?.message == "column 1 is NULL")
                #expect(try connection.first("SELECT 2") { $0.int(0) } == 2)
            }
        }
        let error = #expect(throws: SQLError.self) {
            try fixture.database.writeBlocking(hints: [1]) { cells in
                cells.add(1, to: 1)
                _ = try cells.connection.first("SELECT NULL::text") { $0.text(0) }
            }
        }
        #expect(error?.code == .corrupt)
        #expect(try fixture.value(1) == 0, "what the write had done is undone")
    }

    @Test("what is sent ahead is answered with the next statement, and given to the same question alone")
    func ahead() throws {
        let query: SQL = "SELECT value FROM cells WHERE id = $1"
        func value(_ id: Int, _ connection: PostgresConnection) throws -> Int64? { try connection.first(query, id) { $0.int(0) } }
        func other(_ connection: PostgresConnection) throws { _ = try connection.first("SELECT 1") { $0.int(0) } }
        try fixture.database.readBlocking { connection throws in
            try connection.sendAhead(query, 1)
            try other(connection)
            try add()
            // Of the earlier moment, and once.
            #expect(try value(1, connection) == 0)
            #expect(try value(1, connection) == 1)
            // Before any answer came, it is asked again.
            try connection.sendAhead(query, 1)
            #expect(try value(1, connection) == 1)
            // Other values are another question.
            try connection.sendAhead(query, 2)
            try other(connection)
            #expect(try value(1, connection) == 1)
            // The later one counts.
            try connection.sendAhead(query, 1)
            try connection.sendAhead(query, 2)
            try other(connection)
            try add()
            #expect(try value(1, connection) == 2)
            // Whoever borrows the connection next gets no old answer.
            try connection.sendAhead(query, 1)
            try other(connection)
        }
        try add()
        try fixture.database.readBlocking { connection throws in #expect(try value(1, connection) == 3) }
        // An error before it spoils it, and the connection stays good.
        try fixture.database.readBlocking { connection throws in
            try connection.sendAhead(query, 1)
            #expect(throws: SQLError.self) { try connection.run("SELECT 1 / $1", 0) }
            try add()
            #expect(try value(1, connection) == 4)
        }
        #expect(try fixture.value(1) == 4)
    }

    @Test("a survey may have no limit of time")
    func unlimited() throws {
        let database = try PostgresFixture {
            $0.surveyTimeoutMilliseconds = 0
            $0.answerMarginMilliseconds = 0
        }.database
        let limit = try database.survey { connection in
            _ = try connection.run("SELECT pg_sleep(0.01)")
            return try connection.first("SHOW statement_timeout") { $0.text(0) }
        }
        #expect(limit == "0")
    }

    @Test("only so many surveys have a connection at the same time; one more waits, and is refused when the database closes")
    func fewSurveys() async throws {
        let database = try PostgresFixture { $0.surveys = 2 }.database
        let gate = Gate()
        let ran = Counter()
        let surveys = (0..<3).map { _ in
            onThread {
                try database.survey { connection in
                    _ = try connection.run("SELECT 1")
                    ran.add()
                    gate.stand()
                }
            }
        }
        await ran.until(2)
        let open = try database.readBlocking {
            try $0.first(
                """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT 1%'
                """
            ) { $0.int(0) }
        }
        #expect(open == 2 && ran.current == 2)
        gate.open()
        #expect(await failures(surveys) == [nil, nil, nil])
        #expect(ran.current == 3)
        database.close()
        #expect(sqlError { try database.survey { _ in } } == .closed)
    }

    @Test("a survey sees one state, and each of several its own")
    func surveys() throws {
        let database = fixture.database
        try database.survey { connection throws in
            #expect(try value(connection) == 0)
            try add()
            #expect(try value(connection) == 0)
        }
        let seen = try database.survey(each: [1, 2, 3]) { number, connection in
            defer { try? add() }
            return "\(number): \(try value(connection) ?? -1)"
        }
        #expect(seen == ["1: 1", "2: 2", "3: 3"])
    }

    @Test("no transaction stays open behind a snapshot, also when its closure threw")
    func nothingStays() async throws {
        let database = fixture.database
        #expect(try database.snapshotBlocking(value) == 0)
        #expect(throws: Refused.self) { try database.snapshotBlocking { _ in throw Refused() } }
        #expect(sqlError { try database.snapshotBlocking { try $0.run("SELECT 1 / $1", 0) } }?.sqlState == "22012")
        let other = try fixture.session()
        try await lookUntil {
            try other.readBlocking {
                try $0.first(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
                ) { $0.int(0) }
            } == 0
        }
        #expect(try fixture.value(1) == 0)
    }

    @Test("many reads at the same time share the connections")
    func concurrent() async throws {
        let database = try fixture.session { $0.readConnections = 4 }
        try await withThrowingTaskGroup(of: Int64?.self) { group in
            for number in 0..<64 {
                group.addTask {
                    try await offThePool { try database.readBlocking { try $0.first("SELECT $1", number) { $0.int(0) } } }
                }
            }
            var sum: Int64 = 0
            for try await found in group { sum += found ?? 0 }
            #expect(sum == 63 * 32)
        }
    }
}
