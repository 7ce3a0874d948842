import SQLEngine
import Testing

@Suite("Values go in and come out as they were")
struct ValueTests {
    private func roundTrip<B: SQLBindable & Sendable, T>(_ value: B, _ map: (borrowing Row) throws -> T) throws -> T? {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { _ = try $0.connection.run("INSERT INTO things (data) VALUES (?1)", value) }
        return try fixture.database.read { try $0.first("SELECT data FROM things", map: map) }
    }

    /// How SQLite keeps a value (https://www.sqlite.org/datatype3.html).
    private func kind<B: SQLBindable & Sendable>(_ value: B) throws -> String? {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { _ = try $0.connection.run("INSERT INTO things (data) VALUES (?1)", value) }
        return try fixture.database.read { try $0.first("SELECT typeof(data) FROM things") { $0.text(0) } }
    }

    @Test("whole numbers to their limits", arguments: [Int64.min, -1, 0, 1, Int64.max])
    func integers(_ value: Int64) throws {
        #expect(try roundTrip(value) { $0.int(0) } == value)
        #expect(try roundTrip(Int(value)) { $0.intOrNil(0) } == value)
        #expect(try kind(value) == "integer")
    }

    @Test("short whole numbers and truth values")
    func otherIntegers() throws {
        #expect(try roundTrip(Int32.min) { $0.int(0) } == Int64(Int32.min))
        #expect(try roundTrip(true) { $0.int(0) } == 1)
        #expect(try roundTrip(false) { $0.bool(0) } == false)
        #expect(try roundTrip(-7) { $0.bool(0) } == true)
    }

    @Test(
        "texts of any length and script, empty, and with a NUL inside",
        arguments: ["", "a", "fifteen bytes!!", "sixteen bytes!!!", "Žluťoučký kůň", "🔔👩‍👩‍👧‍👦", "a\0b", "\0", "end\0", "\u{FEFF}x"])
    func texts(_ value: String) throws {
        #expect(try roundTrip(value) { $0.text(0) } == value)
        #expect(try roundTrip(value) { $0.textOrNil(0) } == value)
        #expect(try kind(value) == "text")
        #expect(try roundTrip(value) { [UInt8]($0.bytes(0)) } == Array(value.utf8))
    }

    @Test("a long text")
    func longText() throws {
        let text = String(repeating: "žluť ", count: 100_000)
        #expect(try roundTrip(text) { $0.text(0) } == text)
    }

    @Test("a text that is a literal")
    func literals() throws {
        #expect(try roundTrip("literal" as StaticString) { $0.text(0) } == "literal")
        #expect(try kind("" as StaticString) == "text")
        #expect(try roundTrip("é" as StaticString) { $0.text(0) } == "é")
    }

    @Test("blobs, also an empty one, which isn't NULL")
    func blobs() throws {
        let bytes: [UInt8] = Array(0...255)
        #expect(try roundTrip(bytes) { $0.blob(0) } == bytes)
        #expect(try kind([UInt8]()) == "blob")
        #expect(try roundTrip([UInt8]()) { $0.blob(0) } == [])
        #expect(try roundTrip([UInt8]()) { $0.bytesOrNil(0)?.count } == 0)
        #expect(try roundTrip([0, 0] as [UInt8]) { $0.bytesOrNil(0).map { [UInt8]($0) } } == [0, 0])
    }

    @Test("memory that is only borrowed")
    func borrowedBytes() throws {
        let fixture = try Fixture()
        let count = try fixture.database.writeBlocking { transaction in
            let bytes: [UInt8] = [1, 2, 3]
            try bytes.withUnsafeBytes { _ = try transaction.connection.run("INSERT INTO things (data) VALUES (?1)", $0) }
            let empty = UnsafeRawBufferPointer(start: nil, count: 0)
            try transaction.connection.run("INSERT INTO things (data) VALUES (?1)", empty)
            return try bytes.withUnsafeBytes {
                try transaction.connection.first("SELECT count(*) FROM things WHERE data = ?1 OR data = x''", $0) { $0.int(0) }
            }
        }
        #expect(count == 2)
    }

    @Test("nil is NULL, of whatever type")
    func null() throws {
        #expect(try roundTrip(String?.none) { $0.isNull(0) } == true)
        #expect(try roundTrip(Int64?.none) { $0.intOrNil(0) } == .some(.none))
        #expect(try roundTrip([UInt8]?.none) { $0.isNull(0) } == true)
        #expect(try roundTrip(String?.none) { $0.textOrNil(0) } == .some(.none))
        #expect(try roundTrip(String?.none) { $0.bytesOrNil(0) == nil } == true)
        #expect(try roundTrip(String?.some("x")) { $0.textOrNil(0) } == "x")
        #expect(try roundTrip(Int64?.some(0)) { $0.isNull(0) } == false)
    }

    @Test("arguments of different types in one statement, each in its place")
    func severalArguments() throws {
        let fixture = try Fixture()
        let row = try fixture.database.read { connection in
            try connection.first("SELECT ?1, ?2, ?3, ?4, ?5", 1, "two", [3] as [UInt8], Int64?.none, true) {
                "\($0.int(0)) \($0.text(1)) \($0.blob(2)) \($0.isNull(3)) \($0.bool(4))"
            }
        }
        #expect(row == "1 two [3] true true")
    }

    @Test("an argument doesn't stay for the next use of its statement")
    func argumentsAreCleared() throws {
        let fixture = try Fixture()
        func ask(_ value: String?) throws -> Bool? {
            try fixture.database.read { try $0.first("SELECT ?1 IS NULL", value) { $0.bool(0) } }
        }
        #expect(try ask("x") == false)
        #expect(try ask(nil) == true)
    }

    @Test("bytes that aren't UTF-8 are repaired in a text and kept in its bytes")
    func invalidUTF8() throws {
        let fixture = try Fixture()
        let (text, bytes) = try #require(
            try fixture.database.read {
                try $0.first("SELECT CAST(x'61FF62' AS TEXT)") { ($0.text(0), [UInt8]($0.bytes(0))) }
            })
        #expect(text == "a\u{FFFD}b")
        #expect(bytes == [0x61, 0xFF, 0x62])
    }
}
