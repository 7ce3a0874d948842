import Testing

@testable import SQLEngine

@Suite("The text of a statement")
struct SQLTests {
    @Test("put together twice it is one text, and another than that of other words")
    func identity() {
        let columns: SQLColumns = ["a", "b"]
        func statement(_ table: SQL) -> SQL { "SELECT \(columns.list) FROM \(table)" }
        #expect(statement("t").description == "SELECT a, b FROM t")
        #expect(statement("t").address == statement("t").address)
        #expect(statement("t").address != statement("u").address)
        #expect(statement("t").start[statement("t").count] == 0)
    }

    @Test("columns are listed, named with their table, and set from arguments or from another table")
    func columns() {
        let columns: SQLColumns = ["a", "b"] + ["c"]
        #expect(columns.of("t").description == "t.a, t.b, t.c")
        #expect(columns.set(from: 2).description == "a = $2, b = $3, c = $4")
        #expect(columns.set(of: "u").description == "a = u.a, b = u.b, c = u.c")
        #expect(SQL.arguments(9...11).description == "$9, $10, $11")
    }

    @Test("a part that the engines say differently makes the whole one different")
    func engines() {
        let part = SQLText(sqlite: "x", postgres: "y")
        let whole: SQLText = "SELECT \(part), \(SQL.list(["a", "b"]))"
        #expect(whole.sqlite.description == "SELECT x, a, b" && whole.postgres.description == "SELECT y, a, b")
    }

    @Test("a name that a database gave stands in quotes, whatever is in it")
    func name() {
        #expect(SQL.name("a\"; DROP TABLE t; --").description == "\"a\"\"; DROP TABLE t; --\"")
    }

    @Test("a statement that is put together at each call is prepared once, and found where it is")
    func prepared() throws {
        let fixture = try Fixture()
        for number in 1...3 {
            let columns: SQLColumns = ["id", "name"]
            let table = SQL.name("things")
            try fixture.database.writeBlocking { transaction in
                try transaction.connection.run(
                    "INSERT INTO \(table) (\(columns.list)) VALUES (\(.arguments(1...2)))", number, "x\(number)")
            }
        }
        #expect(try fixture.names == ["x1", "x2", "x3"])
    }
}
