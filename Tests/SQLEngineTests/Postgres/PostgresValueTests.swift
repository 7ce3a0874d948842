import SQLEngine
import Testing
import TestSupport

@Suite(.endsIfItHangs) struct PostgresValueTests {
    private let fixture: PostgresFixture

    init() throws { fixture = try PostgresFixture() }

    private func back<B: PostgresBindable, T>(
        _ sql: SQL, _ value: B, _ map: @escaping (borrowing PostgresRow) throws -> T
    ) throws -> T? {
        try fixture.database.readBlocking { try $0.first(sql, value, map: map) }
    }

    @Test("integers of every size come back as they were", arguments: [0, 1, -1, Int64.max, .min, 1 << 31, -(1 << 31)])
    func integers(_ value: Int64) throws {
        #expect(try back("SELECT $1", value) { $0.int(0) } == value)
        #expect(try back("SELECT $1", Int(value)) { $0.int(0) } == value)
        if let small = Int32(exactly: value) {
            #expect(try back("SELECT $1::integer", small) { $0.int(0) } == value)
        }
        if let smaller = Int16(exactly: value) {
            #expect(try back("SELECT $1::smallint", Int64(smaller)) { $0.int(0) } == value)
        }
    }

    @Test(
        "texts come back as they were, the empty one too",
        arguments: ["", "x", "Ünïcödé 🔔", String(repeating: "long ", count: 50_000)])
    func texts(_ value: String) throws {
        #expect(try back("SELECT $1", value) { $0.text(0) } == value)
        #expect(try back("SELECT $1", Array(value.utf8)) { $0.blob(0) } == Array(value.utf8))
        let bytes = try Array(value.utf8).withUnsafeBytes { bytes in try back("SELECT $1", bytes) { $0.blob(0) } }
        #expect(bytes == Array(value.utf8))
    }

    @Test("a literal is a text, and a boolean a boolean or a number")
    func others() throws {
        #expect(try back("SELECT $1", "literal" as StaticString) { $0.text(0) } == "literal")
        #expect(try back("SELECT $1", true) { $0.bool(0) } == true)
        #expect(try back("SELECT $1", false) { $0.bool(0) } == false)
        #expect(try back("SELECT $1::int", 7) { $0.bool(0) } == true)
    }

    @Test("equal literals take arguments of different types, each its own")
    func types() throws {
        for _ in 0..<2 {
            try fixture.database.readBlocking { connection throws in
                #expect(try connection.first("SELECT $1", 1) { $0.int(0) } == 1)
                #expect(try connection.first("SELECT $1", "1") { $0.text(0) } == "1")
            }
        }
    }

    @Test("bytes hold every value, NUL among them")
    func bytes() throws {
        let all = Array(UInt8.min...UInt8.max)
        #expect(try back("SELECT $1", all) { $0.blob(0) } == all)
        #expect(try back("SELECT $1", all) { $0.bytes(0).count } == 256)
    }

    @Test("nil is NULL, and neither an empty text nor an empty bytea is")
    func null() throws {
        #expect(try back("SELECT $1", nil as Int64?) { $0.isNull(0) && $0.intOrNil(0) == nil } == true)
        #expect(try back("SELECT $1", nil as String?) { $0.textOrNil(0) == nil } == true)
        #expect(try back("SELECT $1", nil as [UInt8]?) { $0.bytesOrNil(0) == nil } == true)
        #expect(try back("SELECT $1", "" as String?) { $0.textOrNil(0) } == "")
        #expect(try back("SELECT $1", [] as [UInt8]?) { $0.isNull(0) } == false)
        #expect(try back("SELECT $1", 5 as Int64?) { $0.intOrNil(0) } == 5)
    }

    @Test("several arguments, with NULLs and empty ones between them, keep their places")
    func places() throws {
        let row = try fixture.database.readBlocking {
            try $0.first("SELECT $1, $2, $3, $4, $5, $6", "", nil as Int64?, 7, [] as [UInt8], nil as String?, "end") {
                "\($0.text(0))|\($0.isNull(1))|\($0.int(2))|\($0.blob(3))|\($0.isNull(4))|\($0.text(5))"
            }
        }
        #expect(row == "|true|7|[]|true|end")
    }

    @Test("a text with a NUL is refused before it is sent, and spoils nothing")
    func nul() throws {
        try fixture.database.readBlocking { connection throws in
            let error = sqlError { _ = try connection.run("SELECT $1, $2", 1, "secret\0") }
            #expect(error?.code == .unstorable && error?.sqlState == "22021")
            #expect(error?.description.contains("secret") == false && error?.isUnavailable == false)
            #expect(try connection.first("SELECT 2::bigint") { $0.int(0) } == 2)
        }
    }

    @Test("an array goes through unnest with its NULLs, and an empty one is no row")
    func arrays() throws {
        try fixture.database.readBlocking { connection throws in
            let numbers = try PostgresArray(optional: [1, nil, 3] as [Int64?])
            let texts = try PostgresArray(optional: ["a", "", nil])
            let rows = try connection.all("SELECT * FROM unnest($1, $2)", numbers, texts) {
                "\($0.intOrNil(0) ?? -1) \($0.textOrNil(1) ?? "NULL")"
            }
            #expect(rows == ["1 a", "-1 ", "3 NULL"])
            #expect(try connection.all("SELECT unnest($1)", PostgresArray<Int64>()) { $0.int(0) } == [])
            #expect(try connection.all("SELECT unnest($1)", PostgresArray([true, false])) { $0.bool(0) } == [true, false])
            #expect(try connection.all("SELECT unnest($1)", PostgresArray([[1], []] as [[UInt8]])) { $0.blob(0) } == [[1], []])
            let many = try connection.first("SELECT sum(n)::bigint FROM unnest($1) n", PostgresArray(1...100_000)) { $0.int(0) }
            #expect(many == 5_000_050_000)
        }
    }

    @Test("an array that refuses a text with a NUL is as it was, and can be emptied and filled again")
    func arrayOfTexts() throws {
        var texts = PostgresArray<String>()
        try texts.append("a")
        #expect(sqlError { try texts.append("b\0") }?.code == .unstorable)
        try texts.append("c")
        #expect(texts.count == 2)
        try fixture.database.readBlocking { connection throws in
            #expect(try connection.all("SELECT unnest($1)", texts) { $0.text(0) } == ["a", "c"])
            texts.removeAll()
            #expect(texts.isEmpty)
            try texts.append("d")
            #expect(try connection.all("SELECT unnest($1)", texts) { $0.text(0) } == ["d"])
        }
    }

    @Test("another module's type can be an argument: a uuid of 16 bytes")
    func uuid() throws {
        let value = Identifier(bytes: (0..<16).map { UInt8($0) })
        let found = try fixture.database.readBlocking {
            try $0.first("SELECT $1::text, $1, ($2::uuid[])[1]", value, PostgresArray([value])) {
                ($0.text(0), $0.blob(1), $0.blob(2))
            }
        }
        #expect(found?.0 == "00010203-0405-0607-0809-0a0b0c0d0e0f")
        #expect(found?.1 == value.bytes && found?.2 == value.bytes)
    }

    private struct Identifier: PostgresBindable {
        let bytes: [UInt8]
        static var postgresType: UInt32 { 2950 }
        static var postgresArrayType: UInt32 { 2951 }

        func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
            buffer.append(bytes)
            return true
        }
    }
}
