import Foundation
import SQLEngine
import Synchronization
import TestSupport
import Testing

@Suite("The log is copied in the background", .serialized)
struct CheckpointerTests {
    /// Each write grows the log by about 25 pages, and every 10 are enough for a copy.
    private static func fixture(pages: Int = 10) throws -> Fixture {
        try Fixture { $0.walAutocheckpointPages = pages }
    }

    private static func writeBig(_ fixture: Fixture, _ id: Int64) throws {
        try fixture.database.writeBlocking {
            // Other bytes each time: SQLite doesn't write a page again that is as it was.
            _ = try $0.connection.run("INSERT OR REPLACE INTO things (id, data) VALUES (?1, randomblob(200000))", id)
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

    @Test("a log that only another process fills is copied by the one that serves it, and begun anew")
    func foreign() throws {
        let fixture = try Fixture {
            $0.walAutocheckpointPages = 10
            $0.logBytesKept = 0
        }
        var options = DatabaseOptions()
        options.synchronous = .off
        options.walAutocheckpointPages = .max
        options.logBytesKept = 0
        let other = try Database(path: fixture.folder.file(), options: options)
        fixture.database.onForeignChange {}
        for number in 0..<40 {
            try other.writeBlocking {
                _ = try $0.connection.run("INSERT OR REPLACE INTO things (id, data) VALUES (?1, randomblob(200000))", number % 4)
            }
            // As a poll does: the first begins a copy, and the next ends it.
            try fixture.database.pollForeignChange()
        }
        #expect(try Self.bytes(fixture, "test.sqlite-wal") < 4 * 25 * 9_000)
        #expect(try fixture.count == 4)
    }

    @Test("writes are answered while the log is copied: the thread that copies isn't the writer's", .endsIfItHangs)
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
        await hold.untilWritten()
        try #require(hold.thread == "sql-checkpoint")
        // So few pages that the writer needn't wait for the copy.
        try await withTaskCancellationHandler {
            for number in 0..<2 { try await fixture.database.write { try insertThing($0.connection, "\(number)") } }
        } onCancel: {
            hold.gate.open()
        }
        #expect(try fixture.count == 3)
    }

    /// Counts what is written to the file from now on. While the first page of a copy waits, 200 pages more are committed:
    /// fewer than the writer would wait at, and twenty times what may be left to it.
    private static func writeMuchDuringCopy(_ fixture: Fixture) async throws {
        let file = try TestDisk.file(fixture.folder.file())
        let hold = TestDisk.Hold(file)
        TestDisk.hold.withLock { $0 = hold }
        TestDisk.counted.change { $0 = (file, [:]) }
        defer {
            TestDisk.hold.withLock { $0 = nil }
            hold.gate.open()
        }
        for number in 0..<6 { try writeBig(fixture, Int64(number)) }
        await hold.untilWritten()
        for number in 6..<14 { try writeBig(fixture, Int64(number)) }
    }

    @Test(
        "what is committed while the log is copied is copied in the background too: the writer gets the last pages only",
        .endsIfItHangs)
    func passes() async throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Self.fixture(pages: 120)
        defer { TestDisk.counted.change { $0 = (0, [:]) } }
        try await Self.writeMuchDuringCopy(fixture)
        func writes(_ thread: String) -> Int { TestDisk.counted.value.writes[thread] ?? 0 }
        var id: Int64 = 100
        while writes("sql-writer") == 0 {
            try Task.checkCancellation()
            try fixture.database.writeBlocking { [id] in _ = try $0.connection.run("INSERT INTO things (id) VALUES (?1)", id) }
            id += 1
        }
        #expect(writes("sql-writer") <= 40)
        #expect(writes("sql-checkpoint") >= 200)
    }

    @Test("a copy that SQLite calls busy, as when it begins in the midst of a commit, is begun again", .endsIfItHangs)
    func busy() async throws {
        #expect(TestDisk.replacesMethods)
        let fixture = try Self.fixture()
        TestDisk.busy.withLock { [file = try TestDisk.file(fixture.folder.file())] in $0 = (file, copies: 3) }
        defer { TestDisk.busy.withLock { $0 = (0, 0) } }
        // Nothing is committed after it that would begin another.
        try Self.writeBig(fixture, 0)
        try await lookUntil { try Self.bytes(fixture) >= 200_000 }
        #expect(TestDisk.busy.withLock { $0.copies } == 0)
    }

    @Test(
        "after a sync of the file that failed nothing is written any more, and the log stays: it alone holds everything",
        .endsIfItHangs, arguments: [10, 100], [false, true])
    func unsynced(_ pages: Int, isOpenElsewhere: Bool) throws {
        #expect(TestDisk.isInstalled && TestDisk.replacesMethods)
        let fixture = try Fixture {
            $0.walAutocheckpointPages = pages
            $0.synchronous = .full
            // No copy anew within this test.
            $0.checkpointRetryMilliseconds = 3_600_000
        }
        let told = Mutex<[ResultCode?]>([])
        fixture.database.onDisplacement { error in told.withLock { $0.append(error?.code) } }
        try fixture.database.checkpoint(truncate: true)
        let path = fixture.folder.file()
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        TestDisk.unsynced.store(try TestDisk.file(path), ordering: .sequentiallyConsistent)
        var acknowledged: Int64 = 0
        #expect(throws: SQLError.self) {
            for _ in 0..<500 {
                try Self.writeBig(fixture, acknowledged)
                acknowledged += 1
            }
        }
        TestDisk.unsynced.store(0, ordering: .sequentiallyConsistent)
        let refusal = #expect(throws: SQLError.self) { try Self.writeBig(fixture, -1) }
        #expect(refusal?.code == .ioErrorSync)
        #expect(refusal?.isUnavailable == true)
        #expect(told.withLock { $0 } == [.ioErrorSync])
        #expect(throws: SQLError.self) { try fixture.database.checkpoint(truncate: true) }
        #expect(try fixture.count == acknowledged)
        // Who has it open keeps what SQLite knows of the log from one start to the next.
        let other = isOpenElsewhere ? try Database(path: path) : nil
        try other?.read { _ = try $0.first("SELECT count(*) FROM things") { $0.int(0) } }
        fixture.database.close()
        defer { other?.close() }

        // As if nothing that was copied had reached the disk.
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try handle.write(contentsOf: before)
        try handle.truncate(atOffset: UInt64(before.count))
        try handle.close()
        let again = try Database(path: path)
        #expect(try countThings(again) == acknowledged)
        #expect(try again.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } } == "ok")
        try again.checkpoint(truncate: true)
    }

    @Test(
        "once a sync in the background has failed, reads are answered from the log, also before the next write",
        .endsIfItHangs)
    func readAfterFailedSync() async throws {
        #expect(TestDisk.isInstalled && TestDisk.replacesMethods)
        let fixture = try Fixture {
            $0.walAutocheckpointPages = 120
            $0.synchronous = .full
            $0.checkpointRetryMilliseconds = 3_600_000
        }
        defer { TestDisk.counted.change { $0 = (0, [:]) } }
        try fixture.database.checkpoint(truncate: true)
        let path = fixture.folder.file()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        let before = try #require(try file.readToEnd())
        TestDisk.unsynced.store(try TestDisk.file(path), ordering: .sequentiallyConsistent)
        defer { TestDisk.unsynced.store(0, ordering: .sequentiallyConsistent) }
        // What is committed meanwhile keeps the pass from the log's end, where SQLite syncs by itself.
        try await Self.writeMuchDuringCopy(fixture)
        await TestDisk.counted.until { $0.writes["sync sql-checkpoint"] != nil }
        try file.seek(toOffset: 0)
        try file.write(contentsOf: before)
        try file.truncate(atOffset: UInt64(before.count))
        var found: String?
        while found != "ok" {
            try Task.checkCancellation()
            // Somebody who has no page of it in memory.
            let other = try? Database(path: path)
            found = try? other?.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
            other?.close()
        }
        #expect(try fixture.count == 14)
        fixture.database.close()
        try file.close()
    }

    @Test(
        "after a sync that failed the file is made good from the log, and only then is anything written again",
        .endsIfItHangs, arguments: [10, 100], [false, true])
    func copiedAnew(_ pages: Int, isReadMeanwhile: Bool) throws {
        #expect(TestDisk.isInstalled && TestDisk.replacesMethods)
        let fixture = try Fixture {
            $0.walAutocheckpointPages = pages
            $0.synchronous = .full
            $0.checkpointRetryMilliseconds = 0
        }
        let told = Mutex<[ResultCode?]>([])
        fixture.database.onDisplacement { error in told.withLock { $0.append(error?.code) } }
        try Self.writeBig(fixture, 0)
        try fixture.database.checkpoint(truncate: true)
        let path = fixture.folder.file()
        // Open to the end: closing it would drop the locks that SQLite holds on the file.
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        let before = try #require(try file.readToEnd())
        TestDisk.unsynced.store(try TestDisk.file(path), ordering: .sequentiallyConsistent)
        defer { TestDisk.unsynced.store(0, ordering: .sequentiallyConsistent) }
        var acknowledged: Int64 = 1
        #expect(throws: SQLError.self) {
            for _ in 0..<500 {
                try Self.writeBig(fixture, acknowledged)
                acknowledged += 1
            }
        }
        for _ in 0..<3 { #expect(throws: SQLError.self) { try Self.writeBig(fixture, -1) } }
        #expect(told.withLock { $0 } == [.ioErrorSync])

        // Nothing that was copied has reached the disk, and Linux has forgotten it.
        try file.seek(toOffset: 0)
        try file.write(contentsOf: before)
        try file.truncate(atOffset: UInt64(before.count))
        func recover() throws {
            TestDisk.unsynced.store(0, ordering: .sequentiallyConsistent)
            try Self.writeBig(fixture, acknowledged)
        }
        if isReadMeanwhile {
            try fixture.database.snapshot { connection in
                #expect(try connection.first("SELECT count(*) FROM things") { $0.int(0) } == acknowledged)
                try recover()
                #expect(try connection.first("SELECT count(*) FROM things") { $0.int(0) } == acknowledged)
            }
        } else {
            try recover()
        }
        #expect(told.withLock { $0 } == [.ioErrorSync, nil])
        #expect(try fixture.count == acknowledged + 1)
        try fixture.database.checkpoint(truncate: true)
        fixture.database.close()
        #expect(fixture.folder.names == ["test.sqlite"], "the log is in the file")
        let again = try Database(path: path)
        #expect(try countThings(again) == acknowledged + 1)
        #expect(try again.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } } == "ok")
        try file.close()
    }

    @Test("what is copied while the writer goes on is synced in the background", .endsIfItHangs)
    func synced() async throws {
        #expect(TestDisk.isInstalled && TestDisk.replacesMethods)
        let fixture = try Fixture {
            $0.walAutocheckpointPages = 120
            $0.synchronous = .full
        }
        defer { TestDisk.counted.change { $0 = (0, [:]) } }
        try await Self.writeMuchDuringCopy(fixture)
        // SQLite's own at the end of the log, and ours after each of two passes. Closing the database would end them after the first.
        await TestDisk.counted.until { $0.writes["sync sql-checkpoint", default: 0] >= 2 }
        fixture.database.close()
    }

    @Test(
        "a write that changes nothing, after the log was emptied, has nothing copied, and closing ends", arguments: [true, false])
    func emptied(_ truncates: Bool) throws {
        let fixture = try Self.fixture()
        // Its copy begins, and who asks for a checkpoint is told that it has ended.
        try Self.writeBig(fixture, 0)
        try fixture.database.checkpoint(truncate: truncates)
        for _ in 0..<3 {
            try fixture.database.writeBlocking { _ = try $0.connection.run("DELETE FROM things WHERE id = -1") }
        }
        let ended = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            fixture.database.close()
            ended.signal()
        }
        #expect(ended.wait(timeout: .now() + 120) == .success)
    }

    @Test("a log that an old reader keeps from being copied is told of, once, and when it is copied again")
    func toldOfReader() throws {
        let fixture = try Self.fixture()
        let told = Mutex<[LogTrouble?]>([])
        fixture.database.onLogTrouble { trouble in told.withLock { $0.append(trouble) } }
        try Self.writeBig(fixture, 0)
        try fixture.database.snapshot { connection in
            _ = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            for number in 1..<20 { try Self.writeBig(fixture, Int64(number)) }
        }
        #expect(told.withLock { $0.count } == 1)
        let trouble = try #require(told.withLock { $0.first ?? nil })
        #expect(trouble.reason == nil)
        #expect(trouble.pages >= 40)
        for number in 0..<20 { try Self.writeBig(fixture, Int64(number)) }
        #expect(told.withLock { $0.count } == 2)
        #expect(told.withLock { $0.last ?? nil } == nil)
    }

    @Test("a log that can't be copied because the disk is full is told of, nothing is lost, and it is copied when there is room")
    func toldOfFullDisk() throws {
        #expect(TestDisk.isInstalled)
        let fixture = try Self.fixture()
        let told = Mutex<[LogTrouble?]>([])
        fixture.database.onLogTrouble { trouble in told.withLock { $0.append(trouble) } }
        try fixture.database.checkpoint(truncate: true)
        let file = try TestDisk.file(fixture.folder.file())
        TestDisk.fill(file)
        defer { TestDisk.empty(file) }
        for number in 0..<8 { try Self.writeBig(fixture, Int64(number)) }
        #expect(told.withLock { $0.map { $0?.reason?.code.primary } } == [.full])
        #expect(try fixture.count == 8)
        TestDisk.empty(file)
        for number in 0..<8 { try Self.writeBig(fixture, Int64(number)) }
        #expect(told.withLock { $0.count } == 2)
        #expect(try Self.bytes(fixture) > 8 * 200_000)
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
        #expect(try Self.bytes(fixture) > 10 * 200_000, "some of it was copied before the end")
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
        #expect(try Self.bytes(fixture) > 200_000, "some of it was copied")
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
