import Foundation
import SQLEngine
import Testing

/// Somewhere to carry a connection out of its closure, past the compiler.
private final class Smuggler: @unchecked Sendable {  // the point of these tests is that the engine notices
    var connection: Connection?
    var transaction: Transaction?
}

@Suite("Misuse ends the program with a sentence")
struct MisuseTests {
    /// Runs in the parent: what the child printed.
    private func expectSentence(
        _ words: String, _ result: ExitTest.Result?, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let output = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
        #expect(output.contains("SQLEngine misused: "), sourceLocation: sourceLocation)
        #expect(output.contains(words), "\(output)", sourceLocation: sourceLocation)
    }

    @Test("using a connection after its closure")
    func afterTheClosure() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            let kept = try fixture.database.read { $0 }
            _ = try kept.run("SELECT 1")
        }
        expectSentence("outside the closure or the thread it was lent to", result)
    }

    @Test("using a connection on another thread")
    func otherThread() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            let smuggler = Smuggler()
            try fixture.database.read { connection in
                smuggler.connection = connection
                let thread = Thread { _ = try? smuggler.connection?.run("SELECT 1") }
                thread.start()
                while !thread.isFinished { usleep(1000) }
            }
        }
        expectSentence("outside the closure or the thread it was lent to", result)
    }

    @Test("keeping the writer's connection")
    func writersConnection() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            let smuggler = Smuggler()
            try fixture.database.writeBlocking { smuggler.connection = $0.connection }
            _ = smuggler.connection?.lastInsertRowID
        }
        expectSentence("outside the closure or the thread it was lent to", result)
    }

    @Test("too few and too many arguments")
    func arguments() async {
        let few = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.read { _ = try $0.run("SELECT ?1, ?2", 1) }
        }
        expectSentence("1 arguments for 2 parameters in: SELECT ?1, ?2", few)
        let many = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.read { _ = try $0.run("SELECT ?1", 1, 2) }
        }
        expectSentence("2 arguments for 1 parameters in: SELECT ?1", many)
    }

    @Test("no statement, and two statements, where one belongs")
    func oneStatement() async {
        let none = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.read { _ = try $0.run(" -- nothing") }
        }
        expectSentence("no statement in", none)
        let two = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.read { _ = try $0.run("SELECT 1; -- and\n SELECT 2") }
        }
        expectSentence("more than one statement in", two)
        let rest = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.read { _ = try $0.run("SELECT 1; garbage") }
        }
        expectSentence("more than one statement in", rest)
    }

    @Test("ending the transaction that the engine began")
    func transactionControl() async {
        let commit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.writeBlocking { _ = try $0.connection.run("COMMIT") }
        }
        expectSentence("transactions are begun and ended by Database", commit)
        let script = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            try fixture.database.writeBlocking { try $0.connection.script("SELECT 1; SAVEPOINT mine;") }
        }
        expectSentence("transactions are begun and ended by Database", script)
    }

    @Test("reading a column that isn't there")
    func column() async {
        let text = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            _ = try fixture.database.read { try $0.first("SELECT 'a'") { $0.text(1) } }
        }
        expectSentence("column 1 doesn't exist", text)
    }

    @Test("waiting for the writer inside a write")
    func writeInsideWrite() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            let database = fixture.database
            try database.writeBlocking { _ in try database.writeBlocking { _ in } }
        }
        expectSentence("a write waits for the writer inside a write", result)
    }

    @Test("migrations out of order")
    func migrationOrder() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = Migrator(
                migrations: [
                    Migration(version: 2, name: "b", sql: ""), Migration(version: 1, name: "a", sql: ""),
                ], applicationID: 1)
        }
        expectSentence("migrations ascend", result)
    }

    @Test("registering what follows from a write after its closure")
    func registering() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let fixture = try Fixture()
            let smuggler = Smuggler()
            try fixture.database.writeBlocking { smuggler.transaction = $0 }
            smuggler.transaction?.afterCommit {}
        }
        expectSentence("outside the closure or the thread it was lent to", result)
    }
}
