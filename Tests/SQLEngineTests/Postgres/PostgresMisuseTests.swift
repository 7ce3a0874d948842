import SQLEngine
import Testing
import TestSupport

@Suite(.endsIfItHangs) struct PostgresMisuseTests {
    private let text: String

    init() throws { text = try PostgresFixture().text }

    /// Runs in the parent: what the child printed.
    private func expectSentence(
        _ words: String, _ result: ExitTest.Result?, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let output = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        #expect(output.contains("SQLEngine misused: "), sourceLocation: sourceLocation)
        #expect(output.contains(words), "\(output)", sourceLocation: sourceLocation)
    }

    @Test("a connection that left its closure ends the program")
    func escaped() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            let connection = try PostgresDatabase<Cells>(PostgresAddress(text)).readBlocking(\.self)
            try connection.run("SELECT 1")
        }
        expectSentence("outside the closure or the thread it was lent to", result)
    }

    @Test("a transaction that a closure ends itself ends the program")
    func control() async {
        let one = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            try PostgresDatabase<Cells>(PostgresAddress(text)).writeBlocking { _ = try $0.connection.run("  commit") }
        }
        expectSentence("begun and ended by PostgresDatabase:   commit", one)
        let script = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            try PostgresDatabase<Cells>(PostgresAddress(text)).writeBlocking { try $0.connection.script("COMMIT") }
        }
        expectSentence("begun and ended by PostgresDatabase", script)
    }

    @Test("a number read that is none, and a column read that isn't there, end the program")
    func rows() async {
        let none = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            _ = try PostgresDatabase<Cells>(PostgresAddress(text)).readBlocking { try $0.first("SELECT 'texts'") { $0.int(0) } }
        }
        expectSentence("column 0 is no integer", none)
        let missing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            _ = try PostgresDatabase<Cells>(PostgresAddress(text)).readBlocking { try $0.first("SELECT 1") { $0.text(1) } }
        }
        expectSentence("column 1", missing)
    }

    @Test("a write that waits for a lane inside a write ends the program")
    func nested() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [text = text as String] in
            let database = try PostgresDatabase<Cells>(PostgresAddress(text))
            try database.writeBlocking { _ in try database.writeBlocking { _ in } }
        }
        expectSentence("a write waits for a lane inside a write", result)
    }

    @Test("what those tests do right ends no program")
    func right() async {
        await #expect(processExitsWith: .success) { [text = text as String] in
            let database = try PostgresDatabase<Cells>(PostgresAddress(text))
            try database.writeBlocking { try $0.connection.script("SELECT 1") }
            _ = try database.readBlocking { try $0.first("SELECT NULL::bigint, 'x'") { ($0.intOrNil(0), $0.text(1)) } }
        }
    }
}
