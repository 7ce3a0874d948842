import SQLEngine
import Testing

@Suite("A connection runs statements")
struct ConnectionTests {
    @Test("run answers the number of rows that the statement itself changed")
    func changedRows() throws {
        let fixture = try Fixture()
        let counts = try fixture.database.writeBlocking { transaction in
            [
                try insertThing(transaction.connection, "a"),
                try transaction.connection.run("INSERT INTO things (name) VALUES ('b'), ('c')"),
                try transaction.connection.run("UPDATE things SET data = 1"),
                try transaction.connection.run("UPDATE things SET data = 2 WHERE name = 'nobody'"),
                try transaction.connection.run("CREATE TABLE others (id INTEGER)"),
                try transaction.connection.run("SELECT * FROM things"),
                try transaction.connection.run("DELETE FROM things WHERE name < 'c'"),
            ]
        }
        #expect(counts == [1, 2, 3, 0, 0, 0, 2])
    }

    @Test("first maps the first row only, and answers nil when there is none")
    func first() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { try $0.connection.run("INSERT INTO things (name) VALUES ('a'), ('b')") }
        var calls = 0
        let name = try fixture.database.read { connection in
            try connection.first("SELECT name FROM things ORDER BY id") { row in
                calls += 1
                return row.text(0)
            }
        }
        #expect(name == "a")
        #expect(calls == 1)
        let nobody = try fixture.database.read { try $0.first("SELECT name FROM things WHERE id = ?1", 9) { $0.text(0) } }
        #expect(nobody == nil)
    }

    @Test("an argument is that of its number, wherever it stands and however often; a dollar that no number follows stays one")
    func numbers() throws {
        let fixture = try Fixture()
        let found = try fixture.database.read { connection in
            try connection.first(
                "SELECT $2, $10, $1 || $2, '$[0]' FROM (SELECT $3, $4, $5, $6, $7, $8, $9)", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
            ) {
                [$0.text(0), $0.text(1), $0.text(2), $0.text(3)]
            }
        }
        #expect(found == ["2", "10", "12", "$[0]"])
    }

    @Test("first runs a statement that writes to its end")
    func firstOfReturning() throws {
        let fixture = try Fixture()
        let id = try fixture.database.writeBlocking { transaction in
            try transaction.connection.first("INSERT INTO things (name) VALUES ('a'), ('b'), ('c') RETURNING id") { $0.int(0) }
        }
        #expect(id == 1)
        #expect(try fixture.count == 3)
    }

    @Test("forEach and all give every row in order")
    func everyRow() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { transaction in
            for number in 0..<100 { try insertThing(transaction.connection, "\(number)") }
        }
        var seen: [String] = []
        try fixture.database.read { connection in
            try connection.forEach("SELECT name FROM things WHERE id <= ?1 ORDER BY id DESC", 3) { seen.append($0.text(0)) }
        }
        #expect(seen == ["2", "1", "0"])
        #expect(try fixture.names == (0..<100).map { "\($0)" })
    }

    @Test("the last row's id is known after an insert")
    func lastInsertRowID() throws {
        let fixture = try Fixture()
        let ids = try fixture.database.writeBlocking { transaction in
            try insertThing(transaction.connection, "a")
            let first = transaction.connection.lastInsertRowID
            try transaction.connection.run("INSERT INTO things (id, name) VALUES (?1, 'b')", Int64(1) << 40)
            return [first, transaction.connection.lastInsertRowID]
        }
        #expect(ids == [1, 1 << 40])
    }

    @Test("a statement can be used while its own rows are being read")
    func recursion() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { try $0.connection.run("INSERT INTO things (name) VALUES ('a'), ('b'), ('c')") }
        func visit(_ connection: Connection, _ after: Int64, _ depth: Int, _ seen: inout [String]) throws {
            try connection.forEach("SELECT id, name FROM things WHERE id > ?1 ORDER BY id", after) { row in
                let id = row.int(0)
                seen.append("\(depth)\(row.text(1))")
                try visit(connection, id, depth + 1, &seen)
                // The outer statement still stands on its row.
                #expect(row.int(0) == id)
            }
        }
        var seen: [String] = []
        for _ in 0..<2 {
            seen = []
            try fixture.database.read { try visit($0, 0, 0, &seen) }
        }
        #expect(seen == ["0a", "1b", "2c", "1c", "0b", "1c", "0c"])
    }

    @Test("more statements than the table began with are all found again")
    func manyStatements() throws {
        let fixture = try Fixture()
        // 40 distinct literals: with the table's bound of half its slots it has to grow.
        let literals: [SQL] = [
            "SELECT 0", "SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4", "SELECT 5", "SELECT 6", "SELECT 7",
            "SELECT 8", "SELECT 9", "SELECT 10", "SELECT 11", "SELECT 12", "SELECT 13", "SELECT 14", "SELECT 15",
            "SELECT 16", "SELECT 17", "SELECT 18", "SELECT 19", "SELECT 20", "SELECT 21", "SELECT 22", "SELECT 23",
            "SELECT 24", "SELECT 25", "SELECT 26", "SELECT 27", "SELECT 28", "SELECT 29", "SELECT 30", "SELECT 31",
            "SELECT 32", "SELECT 33", "SELECT 34", "SELECT 35", "SELECT 36", "SELECT 37", "SELECT 38", "SELECT 39",
        ]
        for _ in 0..<2 {
            let answers = try fixture.database.read { connection in
                try literals.map { try connection.first($0) { $0.int(0) } }
            }
            #expect(answers == (0..<40).map { Int64($0) })
        }
    }

    @Test("a statement follows a schema that changed after it was prepared")
    func schemaChange() throws {
        let fixture = try Fixture()
        func names() throws -> [String] { try fixture.names }
        #expect(try names() == [])
        try fixture.database.writeBlocking { transaction in
            try transaction.connection.script("ALTER TABLE things RENAME TO old; CREATE TABLE things (id INTEGER, name TEXT);")
            try insertThing(transaction.connection, "new")
        }
        #expect(try names() == ["new"])
    }

    @Test("a script runs all its statements, or says which one failed")
    func script() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking {
            try $0.connection.script(
                """
                -- one
                INSERT INTO things (name) VALUES ('a');
                /* two */;; SELECT 1; INSERT INTO things (name) VALUES ('b')
                """)
        }
        #expect(try fixture.names == ["a", "b"])
        let error = #expect(throws: SQLError.self) {
            try fixture.database.writeBlocking {
                try $0.connection.script("INSERT INTO things (name) VALUES ('c'); INSERT INTO things (name) VALUES ('a');")
            }
        }
        #expect(error?.code == .constraintUnique)
        #expect(error?.sql == "INSERT INTO things (name) VALUES ('a');")
        #expect(try fixture.names == ["a", "b"])
    }
}

@Suite("Errors")
struct ErrorTests {
    @Test("errors carry the extended code, SQLite's words and the statement")
    func constraint() throws {
        let fixture = try Fixture()
        let error = #expect(throws: SQLError.self) {
            try fixture.database.writeBlocking { transaction in
                try insertThing(transaction.connection, "twice")
                try insertThing(transaction.connection, "twice")
            }
        }
        #expect(error?.code == .constraintUnique)
        #expect(error?.code.primary == .constraint)
        #expect(error?.message == "UNIQUE constraint failed: things.name")
        #expect(error?.sql == "INSERT INTO things (name) VALUES (?1)")
        #expect(error?.isUnavailable == false)
    }

    @Test("a bound argument is never in an error, not even when SQLite quotes it")
    func argumentsStaySecret() throws {
        let fixture = try Fixture()
        let secret = "hush-4711"
        let statements: [SQL] = [
            "SELECT json_extract('{}', ?1)",  // SQLite: JSON path error near 'hush-4711'
            "INSERT INTO things (id) VALUES (?1)",
            "INSERT INTO things (id, name) VALUES (1, ?1), (2, ?1)",
        ]
        for statement in statements {
            let error = #expect(throws: SQLError.self) {
                try fixture.database.writeBlocking { _ = try $0.connection.run(statement, secret) }
            }
            #expect(error.map { "\($0)" }?.contains(secret) == false)
        }
    }

    @Test("an error in the SQL says what is wrong with it")
    func badSQL() throws {
        let fixture = try Fixture()
        let error = #expect(throws: SQLError.self) {
            try fixture.database.read { _ = try $0.run("SELECT absent FROM things") }
        }
        #expect(error?.code == .error)
        #expect(error?.message == "no such column: absent")
        // A word in double quotes is a column and never silently a text.
        #expect(throws: SQLError.self) { try fixture.database.read { _ = try $0.run(#"SELECT "absent""#) } }
    }

    @Test("after an error the same statement works again")
    func reuse() throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { transaction in
            try insertThing(transaction.connection, "a")
            for _ in 0..<3 {
                #expect(throws: SQLError.self) { try insertThing(transaction.connection, "a") }
            }
            try insertThing(transaction.connection, "b")
            #expect(throws: Refused.self) {
                try transaction.connection.forEach("SELECT name FROM things") { _ in throw Refused() }
            }
            #expect(try transaction.connection.all("SELECT name FROM things") { $0.text(0) } == ["a", "b"])
        }
    }

    @Test("a pattern of a primary code matches its family, one of an extended code only itself")
    func patterns() {
        func word(_ code: ResultCode) -> String {
            switch code {
            case .busySnapshot: "snapshot"
            case .busy: "busy"
            case .constraintUnique: "unique"
            case .constraint: "constraint"
            default: "other"
            }
        }
        let codes: [ResultCode] = [
            .busySnapshot, .busyRecovery, .busy, .constraintUnique, .constraintForeignKey, .full, .queueFull,
        ]
        #expect(codes.map(word) == ["snapshot", "busy", "busy", "unique", "constraint", "other", "other"])
    }

    @Test("what may go better later is told apart from what won't")
    func unavailable() {
        let later: [ResultCode] = [.busy, .busySnapshot, .locked, .full, .ioError, .readOnly, .cantOpen, .queueFull]
        let never: [ResultCode] = [.constraint, .constraintUnique, .error, .corrupt, .notADatabase, .mismatch, .closed]
        #expect(later.allSatisfy { SQLError(code: $0).isUnavailable })
        #expect(never.allSatisfy { !SQLError(code: $0).isUnavailable })
        // SQLITE_IOERR_WRITE, a code without a name here.
        #expect(SQLError(code: ResultCode(rawValue: 778)).isUnavailable)
    }
}
