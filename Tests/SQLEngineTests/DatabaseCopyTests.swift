import Foundation
import SQLEngine
import Synchronization
import Testing

@Suite("Copies of a database in use")
struct DatabaseCopyTests {
    private struct Stopped: Error {}

    /// A database of several steps: about 6 MiB in 12 rows.
    private static func fixture() throws -> Fixture {
        let fixture = try Fixture()
        for number in 0..<12 { try write(fixture.database, Int64(number)) }
        return fixture
    }

    private static func write(_ database: Database, _ id: Int64) throws {
        try database.writeBlocking {
            _ = try $0.connection.run("INSERT OR REPLACE INTO things (id, data) VALUES (?1, randomblob(500000))", id)
        }
    }

    private static func open(_ path: String, _ body: (Connection) throws -> Void) throws {
        let database = try Database(path: path)
        defer { database.close() }
        try database.read(body)
    }

    @Test("a copy holds what was committed when it began, and those who write meanwhile are answered")
    func consistent() async throws {
        let fixture = try Self.fixture()
        let before = try fixture.database.read { try $0.all("SELECT hex(data) FROM things ORDER BY id") { $0.text(0) } }
        let steps = Mutex(0)
        try await fixture.database.copy(to: fixture.folder.file("copy")) { [database = fixture.database] _, _ in
            let step = steps.withLock { steps in
                steps += 1
                return steps
            }
            // Pages that are copied already, those that come, and new ones.
            for id in [0, 11, 100 + step] { try Self.write(database, Int64(id)) }
        }
        #expect(steps.withLock(\.self) > 2)
        #expect(try fixture.count == Int64(12 + steps.withLock(\.self)))
        try Self.open(fixture.folder.file("copy")) { connection in
            let copied = try connection.all("SELECT hex(data) FROM things ORDER BY id") { $0.text(0) }
            #expect(copied == before)
            let finding = try connection.first("PRAGMA integrity_check") { $0.text(0) }
            #expect(finding == "ok")
        }
    }

    @Test("a copy is one file that only its owner may read, in no need of a log, and stands under its name only when it is whole")
    func oneFile() async throws {
        let fixture = try Self.fixture()
        let (folder, target) = (fixture.folder, fixture.folder.file("copy"))
        try await fixture.database.copy(to: target) { [path = folder.path] _, _ in
            let names = try FileManager.default.contentsOfDirectory(atPath: path)
            #expect(!names.contains("copy"))
        }
        #expect(folder.names == ["copy", "test.sqlite", "test.sqlite-shm", "test.sqlite-wal"])
        let attributes = try FileManager.default.attributesOfItem(atPath: target)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let head = try Data(contentsOf: URL(fileURLWithPath: target)).prefix(20)
        #expect(head[18] == 1 && head[19] == 1, "the version for files with a rollback journal")
    }

    @Test("when the copy has ended the log is folded in again")
    func logAfterwards() async throws {
        let fixture = try Self.fixture()
        try await fixture.database.copy(to: fixture.folder.file("copy")) { [database = fixture.database] _, _ in
            try Self.write(database, 5)
        }
        try fixture.database.checkpoint(truncate: true)
        let log = try FileManager.default.attributesOfItem(atPath: fixture.folder.file("test.sqlite-wal"))
        #expect(log[.size] as? Int == 0)
    }

    @Test("the progress grows to the number of pages")
    func progress() async throws {
        let fixture = try Self.fixture()
        let told = Mutex<[(done: Int, all: Int)]>([])
        try await fixture.database.copy(to: fixture.folder.file("copy")) { done, all in told.withLock { $0.append((done, all)) } }
        let all = try #require(told.withLock(\.last)?.all)
        let steps = Array(told.withLock { $0.prefix { $0.done < all } })
        #expect(steps.count >= 2)
        #expect(zip(steps, steps.dropFirst()).allSatisfy { $0.done < $1.done && $0.all == $1.all })
    }

    @Test("a copy that is stopped leaves nothing, nor does a half one that a crash left stop the next")
    func stopped() async throws {
        let fixture = try Self.fixture()
        let target = fixture.folder.file("copy")
        await #expect(throws: Stopped.self) {
            try await fixture.database.copy(to: target) { _, _ in throw Stopped() }
        }
        #expect(!fixture.folder.names.contains { $0.hasPrefix("copy") })
        try Data("half a copy".utf8).write(to: URL(fileURLWithPath: "\(target).partial-\(getpid())"))
        try await fixture.database.copy(to: target) { _, _ in }
        #expect(fixture.folder.names.filter { $0.hasPrefix("copy") } == ["copy"])
    }

    @Test("it can be stopped also while the copy is read again")
    func stoppedWhileChecked() async throws {
        let fixture = try Self.fixture()
        try await fixture.database.write { transaction in
            for number in 0..<20_000 { _ = try transaction.connection.run("INSERT INTO things (name) VALUES (?1)", "\(number)") }
        }
        let copied = Mutex(0)
        await #expect(throws: Stopped.self) {
            try await fixture.database.copy(to: fixture.folder.file("copy")) { done, all in
                let times = copied.withLock { copied in
                    copied += done == all ? 1 : 0
                    return copied
                }
                if times > 1 { throw Stopped() }
            }
        }
        #expect(!fixture.folder.names.contains { $0.hasPrefix("copy") })
    }

    @Test("a file that is there is not overwritten, even one that comes while the copy is made")
    func taken() async throws {
        let fixture = try Self.fixture()
        let target = fixture.folder.file("copy")
        let mine = Data("mine".utf8)
        let early = await #expect(throws: SQLError.self) {
            try await fixture.database.copy(to: fixture.folder.file()) { _, _ in }
        }
        #expect(early?.message.hasSuffix("test.sqlite is there already") == true)
        let late = await #expect(throws: SQLError.self) {
            try await fixture.database.copy(to: target) { _, _ in try mine.write(to: URL(fileURLWithPath: target)) }
        }
        #expect(late?.code == .cantOpen)
        #expect(try Data(contentsOf: URL(fileURLWithPath: target)) == mine)
        #expect(fixture.folder.names.filter { $0.hasPrefix("copy") } == ["copy"])
    }

    @Test("a damaged database gives no copy that anybody could rely on")
    func damaged() throws {
        let fixture = try Self.fixture()
        fixture.database.close()
        let file = try #require(FileHandle(forUpdatingAtPath: fixture.folder.file()))
        // A page that hangs in the table's tree, not one with nothing but content.
        let size = try file.seekToEnd()
        for page in stride(from: 8_192, to: min(size, 80_000), by: 8_192) {
            try file.seek(toOffset: UInt64(page))
            try file.write(contentsOf: Data(repeating: 0xEE, count: 64))
        }
        try file.close()
        let error = #expect(throws: SQLError.self) {
            try DatabaseCopy(of: fixture.folder.file(), to: fixture.folder.file("copy"), isPaced: false).make()
        }
        #expect(error?.code == .corrupt)
        #expect(!fixture.folder.names.contains { $0.hasPrefix("copy") })
    }

    @Test("the files in the place of those that the server opened are not taken for its database")
    func displaced() async throws {
        let fixture = try Self.fixture()
        let other = try Self.fixture()
        other.database.close()
        try FileManager.default.moveItem(atPath: fixture.folder.file(), toPath: fixture.folder.file("moved"))
        try FileManager.default.copyItem(atPath: other.folder.file(), toPath: fixture.folder.file())
        let error = await #expect(throws: SQLError.self) {
            try await fixture.database.copy(to: fixture.folder.file("copy")) { _, _ in }
        }
        #expect(error?.code == .displaced)
        #expect(!fixture.folder.names.contains { $0.hasPrefix("copy") })
    }
}
