import Synchronization
import Testing

@testable import SQLEngine

/// The work that a write registers is done once or not at all, in order, and never before the commit.
@Suite struct TransactionTests {
    /// The events in their order.
    private final class Record: Sendable {
        private let lines = Mutex<[String]>([])

        func add(_ line: String) { lines.withLock { $0.append(line) } }
        func take() -> [String] {
            lines.withLock { lines in
                defer { lines = [] }
                return lines
            }
        }
    }

    /// A write that inserts a row of this name and registers both kinds of effects.
    private static func register(_ name: String, _ record: Record) -> @Sendable (Transaction) throws -> Void {
        { transaction in
            transaction.onRollback { record.add("undo \(name) first") }
            transaction.onRollback { record.add("undo \(name) second") }
            transaction.afterCommit { record.add("after \(name)") }
            try insertThing(transaction.connection, name)
            transaction.changed(transaction.connection.lastInsertRowID)
        }
    }

    @Test("effects come after the commit, in the order of the writes, and before any caller is answered")
    func order() async throws {
        let fixture = try Fixture()
        let record = Record()
        fixture.database.onCommit { record.add("changed \($0)") }
        let writes: [@Sendable (Transaction) throws -> Void] = ["a", "b"].map { name in
            { transaction in
                try Self.register(name, record)(transaction)
                transaction.afterCommit {
                    let committed = (try? countThings(fixture.database)) ?? 0
                    record.add("\(committed) rows")
                }
            }
        }
        _ = await runGroup(fixture.database, writes)
        #expect(record.take() == ["changed [1, 2]", "after a", "2 rows", "after b", "2 rows"])
        try await fixture.database.write { try Self.register("c", record)($0) }
        record.add("answered")
        #expect(record.take() == ["changed [3]", "after c", "answered"], "nothing of the group before comes again")
    }

    @Test("a write that throws after it registered has its effects undone, the last first, and no other write's")
    func thrown() async throws {
        let fixture = try Fixture()
        let record = Record()
        fixture.database.onCommit { record.add("changed \($0)") }
        let results = await runGroup(
            fixture.database,
            [
                Self.register("a", record),
                { transaction in
                    transaction.onRollback { record.add("undo b") }
                    transaction.afterCommit { record.add("after b") }
                    transaction.changed(99)
                    throw Refused()
                },
                Self.register("c", record),
            ])
        #expect(results.map { $0?.code } == [nil, nil, .misuse, nil])
        #expect(record.take() == ["undo b", "changed [1, 2]", "after a", "after c"])
    }

    @Test(
        "a group that is run again registers anew: what the first run registered is undone once, what the second did is done once"
    )
    func rerun() async throws {
        let fixture = try Fixture()
        let record = Record()
        _ = await runGroup(
            fixture.database,
            [
                Self.register("a", record),
                // It fails after it has changed something, so that the whole group is run again.
                { transaction in
                    try Self.register("b", record)(transaction)
                    throw Refused()
                },
                Self.register("c", record),
            ])
        #expect(
            record.take() == [
                "undo b second", "undo b first", "undo a second", "undo a first",
                "undo b second", "undo b first",
                "after a", "after c",
            ])
        #expect(try fixture.names == ["a", "c"])
    }

    @Test("a commit that fails undoes the effects of every write in the group")
    func failingCommit() async {
        await #expect(processExitsWith: .success) {
            let fixture = try Fixture()
            let record = Record()
            fixture.database.onCommit { record.add("changed \($0)") }
            var makeRoom = {}
            let writes = [Self.register("a", record), Self.register("b", record)]
            // COMMIT is where the log grows.
            let results = await runGroup(fixture.database, writes) { makeRoom = fillDisk() }
            try #require(results.allSatisfy { $0?.isUnavailable == true })
            try #require(record.take() == ["undo b second", "undo b first", "undo a second", "undo a first"])
            makeRoom()
            try await fixture.database.write { try Self.register("c", record)($0) }
            try #require(record.take() == ["changed [1]", "after c"])
        }
    }

    @Test("when SQLite gives the transaction up by itself, the effects of every write in it are undone")
    func automaticRollback() async throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking { try $0.connection.script("PRAGMA max_page_count = 10") }
        let record = Record()
        fixture.database.onCommit { record.add("changed \($0)") }
        let results = await runGroup(
            fixture.database,
            [
                Self.register("a", record),
                { transaction in
                    transaction.onRollback { record.add("undo b") }
                    transaction.afterCommit { record.add("after b") }
                    let big = [UInt8](repeating: 7, count: 200_000)
                    // It swallows the error, and returns as if all were well.
                    #expect(throws: SQLError.self) {
                        try transaction.connection.run("INSERT INTO things (data) VALUES (?1)", big)
                    }
                },
                Self.register("c", record),
            ])
        #expect(results.map { $0?.code } == [.full, .full, .full, .full])
        #expect(record.take() == ["undo b", "undo a second", "undo a first"])
    }

    @Test("a write that a foreign key fails at its end has its effects undone, and no other write's")
    func deferredForeignKey() async throws {
        let fixture = try Fixture()
        try fixture.database.writeBlocking {
            try $0.connection.script(
                "CREATE TABLE parts (thing INTEGER NOT NULL REFERENCES things (id) DEFERRABLE INITIALLY DEFERRED) STRICT")
        }
        let record = Record()
        fixture.database.onCommit { record.add("changed \($0)") }
        let results = await runGroup(
            fixture.database,
            [
                Self.register("a", record),
                { transaction in
                    transaction.onRollback { record.add("undo b") }
                    transaction.afterCommit { record.add("after b") }
                    transaction.changed(99)
                    _ = try transaction.connection.run("INSERT INTO parts VALUES (99)")
                },
                Self.register("c", record),
            ])
        #expect(results.map { $0?.code } == [nil, nil, .constraintForeignKey, nil])
        #expect(
            record.take() == [
                "undo b", "undo a second", "undo a first",
                "undo b", "changed [1, 2]", "after a", "after c",
            ])
    }

    @Test("a rehearsal changes nothing outside the database either")
    func rehearsal() async throws {
        let fixture = try Fixture()
        let record = Record()
        try await fixture.database.rehearse { try Self.register("a", record)($0) }
        #expect(record.take() == ["undo a second", "undo a first"])
        try await fixture.database.write { try Self.register("b", record)($0) }
        #expect(record.take() == ["after b"])
    }

    @Test("one write has one time, and each asks the clock of the database once a run")
    func time() async throws {
        let clock = Counter()
        let fixture = try Fixture {
            $0.clock = {
                clock.add()
                return Int64(clock.current)
            }
        }
        let before = clock.current
        let (first, again) = try await fixture.database.write { transaction in
            (transaction.milliseconds, transaction.milliseconds)
        }
        #expect(first == again)
        #expect(clock.current == before + 1)
        #expect(try await fixture.database.write { $0.milliseconds } == first + 1)
    }
}
