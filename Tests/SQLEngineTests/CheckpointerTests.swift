import Foundation
import SQLEngine
import Synchronization
import Testing

@Suite("The log is copied in the background")
struct CheckpointerTests {
    /// Each write grows the log by about 25 pages, and every 10 are enough for a copy.
    private static func fixture() throws -> Fixture {
        try Fixture { $0.walAutocheckpointPages = 10 }
    }

    private static func writeBig(_ fixture: Fixture, _ id: Int64) throws {
        try fixture.database.writeBlocking {
            // Other bytes each time: SQLite doesn't write a page again that is as it was.
            _ = try $0.run("INSERT OR REPLACE INTO things (id, data) VALUES (?1, randomblob(200000))", id)
        }
    }

    private static func bytes(_ fixture: Fixture, _ name: String = "test.sqlite") throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: fixture.folder.file(name))
        return attributes[.size] as? Int ?? 0
    }

    @Test("while writes go on and on, the log is begun anew: the writer waits for a disk that is slower than it")
    func bounded() throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Self.fixture()
        TestDisk.slow.store(try TestDisk.file(fixture.folder.file()), ordering: .sequentiallyConsistent)
        defer { TestDisk.slow.store(0, ordering: .sequentiallyConsistent) }
        for number in 0..<40 { try Self.writeBig(fixture, Int64(number % 4)) }
        // 40 writes fill 8 MB of log. One write of 25 pages may stand above the 40 that the writer waits at, before and after.
        #expect(try Self.bytes(fixture, "test.sqlite-wal") < 4 * 25 * 9_000)
        #expect(try fixture.count == 4)
    }

    @Test("writes are answered while the log is copied: the thread that copies isn't the writer's", .timeLimit(.minutes(1)))
    func meanwhile() async throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Self.fixture()
        let hold = TestDisk.Hold(try TestDisk.file(fixture.folder.file()))
        TestDisk.hold.withLock { $0 = hold }
        defer {
            TestDisk.hold.withLock { $0 = nil }
            hold.gate.open()
        }
        try Self.writeBig(fixture, 0)
        while hold.thread == nil {
            try Task.checkCancellation()
            await Task.yield()
        }
        try #require(hold.thread == "sql-checkpoint")
        // So few pages that the writer needn't wait for the copy.
        try await withTaskCancellationHandler {
            for number in 0..<2 { try await fixture.database.write { try insertThing($0, "\(number)") } }
        } onCancel: {
            hold.gate.open()
        }
        #expect(try fixture.count == 3)
    }

    @Test("a reader of an old state keeps its state, and the log is begun anew once it is gone")
    func oldReader() throws {
        let fixture = try Self.fixture()
        try Self.writeBig(fixture, 0)
        try fixture.database.snapshot { connection in
            let count = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            for number in 1..<20 { try Self.writeBig(fixture, Int64(number)) }
            #expect(try connection.first("SELECT count(*) FROM things") { $0.int(0) } == count)
        }
        let held = try Self.bytes(fixture, "test.sqlite-wal")
        #expect(held > 19 * 200_000, "what the reader doesn't know yet is in the log")
        for number in 0..<100 { try Self.writeBig(fixture, Int64(number % 20)) }
        #expect(try Self.bytes(fixture, "test.sqlite-wal") < 2 * held)
        #expect(try fixture.count == 20)
    }

    @Test("what was committed while the log was copied is there when the file is opened anew, by itself and by SQLite alone")
    func reopened() throws {
        let fixture = try Self.fixture()
        for number in 0..<60 { try Self.writeBig(fixture, Int64(number)) }
        fixture.database.close()
        #expect(fixture.folder.names == ["test.sqlite"], "the log is in the file")
        let again = try Database(path: fixture.folder.file())
        #expect(try countThings(again) == 60)
        #expect(try again.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } } == "ok")
    }

    @Test("a copy in the background isn't taken for somebody else's change")
    func ownCopy() throws {
        let fixture = try Self.fixture()
        let notices = Counter()
        fixture.database.onForeignChange { notices.add() }
        try fixture.database.pollForeignChange()
        let before = notices.current
        for number in 0..<20 {
            try Self.writeBig(fixture, Int64(number))
            try fixture.database.pollForeignChange()
        }
        #expect(notices.current == before)
    }

    @Test("a checkpoint that is asked for waits for the copy in the background, and empties the log")
    func askedFor() throws {
        let fixture = try Self.fixture()
        for round in 0..<20 {
            for number in 0..<3 { try Self.writeBig(fixture, Int64(3 * round + number)) }
            try fixture.database.checkpoint(truncate: true)
            #expect(try Self.bytes(fixture, "test.sqlite-wal") == 0)
        }
    }

    @Test("closing while the log is copied waits for it, and loses nothing")
    func closing() throws {
        for _ in 0..<20 {
            let fixture = try Self.fixture()
            for number in 0..<3 { try Self.writeBig(fixture, Int64(number)) }
            fixture.database.close()
            #expect(fixture.folder.names == ["test.sqlite"])
            #expect(try countThings(Database(path: fixture.folder.file())) == 3)
        }
    }
}
