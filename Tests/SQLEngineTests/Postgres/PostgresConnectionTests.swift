import SQLEngine
import Testing
import TestSupport

@Suite(.endsIfItHangs) struct PostgresConnectionTests {
    private let fixture: PostgresFixture

    init() throws { fixture = try PostgresFixture() }

    @Test("run tells how many rows it changed; first, all and forEach give rows in order")
    func calls() throws {
        try fixture.database.writeBlocking { unit throws in
            #expect(try unit.connection.run("UPDATE cells SET value = 5 WHERE id <= $1", 3) == 3)
            #expect(try unit.connection.run("DELETE FROM cells WHERE id > 100") == 0)
        }
        try fixture.database.readBlocking { connection throws in
            #expect(try connection.first("SELECT id FROM cells WHERE value = $1 ORDER BY id", 5) { $0.int(0) } == 1)
            #expect(try connection.first("SELECT id FROM cells WHERE value = $1", 6) { $0.int(0) } == nil)
            var seen: [Int64] = []
            // A closure may ask on while it gets rows.
            try connection.forEach("SELECT id FROM cells WHERE value = 5 ORDER BY id") { row in
                let id = row.int(0)
                seen += try connection.all("SELECT id FROM cells WHERE id = $1", id) { $0.int(0) }
            }
            #expect(seen == [1, 2, 3])
        }
    }

    @Test("what is queued goes with the next call, in order, and its error comes from there")
    func queue() throws {
        let database = fixture.database
        try database.writeBlocking { unit throws in
            try unit.connection.queue("INSERT INTO cells VALUES ($1, $2)", 100, 1)
            try unit.connection.queue("UPDATE cells SET value = value + 1 WHERE id = $1", 100)
            #expect(try unit.connection.first("SELECT value FROM cells WHERE id = 100") { $0.int(0) } == 2)
        }
        let error = sqlError {
            try database.writeBlocking { unit throws in
                try unit.connection.queue("INSERT INTO cells VALUES ($1, $2)", 100, 1)
                try unit.connection.run("SELECT 1")
            }
        }
        #expect(error?.code == .constraintUnique && error?.sqlState == "23505")
        #expect(error?.sql == "INSERT INTO cells VALUES ($1, $2)")
        // Without a call behind it.
        let late = sqlError {
            try database.writeBlocking { try $0.connection.queue("INSERT INTO cells VALUES ($1, $2)", 100, 1) }
        }
        #expect(late?.code == .constraintUnique)
        #expect(try fixture.value(100) == 2)
    }

    @Test("an error has the engine's code, PostgreSQL's, and the statement")
    func errors() throws {
        try fixture.database.readBlocking { connection throws in
            let syntax = sqlError { try connection.run("SELECT nonsense($1)", 1) }
            #expect(syntax?.code == .refused && syntax?.sqlState == "42883" && syntax?.sql == "SELECT nonsense($1)")
            #expect(syntax?.description.hasPrefix("PostgreSQL error 42883: ") == true)
            // A statement that couldn't be prepared isn't taken for one that was.
            #expect(sqlError { try connection.run("SELECT * FROM nothing") }?.sqlState == "42P01")
            #expect(sqlError { try connection.run("SELECT * FROM nothing") }?.sqlState == "42P01")
            #expect(sqlError { try connection.run("UPDATE cells SET value = 1") }?.code == .readOnly)
            #expect(try connection.first("SELECT 1::bigint") { $0.int(0) } == 1)
        }
        let database = fixture.database
        func failing(_ sql: SQL) -> SQLError? {
            sqlError { try database.writeBlocking { try $0.connection.run(sql) } }
        }
        #expect(failing("INSERT INTO cells VALUES (1, 1)")?.code == .constraintUnique)
        #expect(failing("INSERT INTO cells VALUES (99, 1000000)")?.code == .constraint)
        #expect(failing("INSERT INTO names VALUES ('a', 77)")?.code == .constraintForeignKey)
    }

    @Test("an error never repeats an argument")
    func secrets() throws {
        let database = fixture.database
        func text(_ sql: SQL) -> String {
            sqlError { try database.writeBlocking { try $0.connection.run(sql, "secret") } }.map { "\($0) \($0.message)" }
                ?? "none"
        }
        try fixture.database.writeBlocking { try $0.connection.run("INSERT INTO names (name) VALUES ($1)", "secret") }
        for said in [
            text("INSERT INTO names (name) VALUES ($1)"), text("SELECT $1::uuid"), text("SELECT $1::timestamptz"),
            text("SELECT ($1 || '1')::bigint"), text("SELECT $1::jsonb"), text("SELECT $1::inet"),
        ] {
            #expect(said.contains("PostgreSQL error"))
            #expect(!said.contains("secret"), "\(said)")
        }
    }

    @Test("after an error a transaction takes no more statements, and nothing of it stays")
    func aborted() throws {
        let database = fixture.database
        let error = sqlError {
            try database.writeBlocking { unit throws in
                unit.add(1, to: 1)
                _ = try? unit.connection.run("SELECT 1 / $1", 0)
                try unit.connection.run("UPDATE cells SET value = 7 WHERE id = 1")
            }
        }
        #expect(error?.sqlState == "22012")
        // Also when the body doesn't notice.
        let swallowed = sqlError {
            try database.writeBlocking { unit throws in
                unit.add(1, to: 1)
                _ = try? unit.connection.run("SELECT 1 / $1", 0)
            }
        }
        #expect(swallowed?.sqlState == "22012")
        #expect(try fixture.value(1) == 0)
    }

    @Test("a commit that the server refuses changes nothing, and is told")
    func deferred() throws {
        let database = fixture.database
        let error = sqlError {
            try database.writeBlocking { unit throws in
                try unit.connection.run("INSERT INTO names VALUES ('b', 77)")
            }
        }
        #expect(error?.code == .constraintForeignKey && error?.isUnavailable == false)
        #expect(try database.readBlocking { try $0.first("SELECT count(*) FROM names") { $0.int(0) } } == 0)
    }

    @Test("a plan that another session's migration spoiled is made anew")
    func spoiledPlan() throws {
        func columns() throws -> Int64? {
            try fixture.database.readBlocking { try $0.first("SELECT * FROM cells WHERE id = 1") { $0.int(1) } }
        }
        #expect(try columns() == 0)
        try fixture.database.writeBlocking { try $0.connection.script("ALTER TABLE cells ALTER value TYPE integer") }
        #expect(sqlError { _ = try columns() }?.isUnavailable ?? true)
        #expect(try columns() == 0)
    }
}
