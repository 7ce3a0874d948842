import SQLEngine
import Testing

/// Rows that only a damaged database holds: NULL where none may be.
@Suite("A value that can't be is an error of its call and ends nothing")
struct DamagedRowTests {
    @Test("each call that gives rows throws it after its closure, with the column and the statement")
    func calls() throws {
        let fixture = try Fixture()
        try fixture.database.read { connection throws in
            for kind in 1...3 {
                let error = #expect(throws: SQLError.self) {
                    switch kind {
                    case 1: _ = try connection.first("SELECT 1, NULL") { $0.int(1) }
                    case 2: _ = try connection.all("SELECT 1, NULL") { $0.text(1) }
                    default: try connection.forEach("SELECT 1, NULL") { _ = $0.bytes(1).count }
                    }
                }
                #expect(error?.code == .corrupt && error?.sql == "SELECT 1, NULL")
                #expect(error?.message == "column 1 is NULL")
            }
        }
    }

    @Test("a closure gets 0 and nothing in its place, and what it throws then doesn't hide the damage")
    func placeholders() throws {
        struct Own: Error {}
        let fixture = try Fixture()
        try fixture.database.read { connection throws in
            var seen: [String] = []
            let error = #expect(throws: SQLError.self) {
                try connection.forEach("SELECT NULL UNION ALL SELECT 7") { row in
                    seen.append("\(row.int(0)) \(row.text(0)) \(row.blob(0).count) \(row.bool(0))")
                    if seen.count == 2 { throw Own() }
                }
            }
            #expect(error?.code == .corrupt)
            #expect(seen == ["0  0 false", "7 7 1 true"])
        }
    }

    @Test("a finding of the program's own is thrown as well, the first of several")
    func finding() throws {
        let fixture = try Fixture()
        let error = #expect(throws: SQLError.self) {
            try fixture.database.read { connection in
                try connection.first("SELECT 'blue'") { row in
                    row.damaged(0, "holds an unknown word")
                    row.damaged(0, "is too much")
                }
            }
        }
        #expect(error?.message == "column 0 holds an unknown word")
    }

    @Test("the next statement, the one around it and the next reader know nothing of it")
    func nothingStays() throws {
        let fixture = try Fixture()
        try fixture.database.read { connection throws in
            let outer = try connection.first("SELECT 1") { row in
                #expect(throws: SQLError.self) { try connection.first("SELECT NULL") { $0.int(0) } }
                return row.int(0)
            }
            #expect(outer == 1)
            #expect(try connection.first("SELECT 2") { $0.int(0) } == 2)
        }
        #expect(throws: SQLError.self) { try fixture.database.read { try $0.first("SELECT NULL") { $0.int(0) } } }
        #expect(try fixture.database.read { try $0.first("SELECT 3") { $0.int(0) } } == 3)
    }

    @Test("a write that meets it is undone alone")
    func write() throws {
        let fixture = try Fixture()
        let error = #expect(throws: SQLError.self) {
            try fixture.database.writeBlocking { transaction in
                _ = try transaction.connection.run("INSERT INTO things (name) VALUES ('a')")
                _ = try transaction.connection.first("INSERT INTO things (name) VALUES ('b') RETURNING data") { $0.int(0) }
            }
        }
        #expect(error?.code == .corrupt)
        try fixture.database.writeBlocking { _ = try $0.connection.run("INSERT INTO things (name) VALUES ('c')") }
        #expect(try fixture.database.read { try $0.all("SELECT name FROM things") { $0.text(0) } } == ["c"])
    }
}
