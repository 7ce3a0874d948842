import Foundation
import SQLEngine
import Testing

/// What the writer gathers before it goes to the write-ahead log, seen from other connections.
@Suite("The log's buffer")
struct LogBufferTests {
    /// Larger than the buffer, so that a transaction goes out in parts, and its pages are read again before its end.
    @Test("a transaction larger than the buffer is whole for readers, for the next to open the file and for SQLite's own check")
    func large() async throws {
        let fixture = try Fixture {
            $0.synchronous = .full
            $0.writerCacheKibibytes = 512
        }
        for round in 0..<4 {
            try await fixture.database.write { connection in
                for number in 0..<400 {
                    let text = String(repeating: "\(number % 10)", count: 10_000)
                    try insertThing(connection, "\(round) \(number) \(text)")
                }
                // Touches pages that were written to the log already, if the cache is small.
                try connection.run("UPDATE things SET name = name || '.'")
            }
            #expect(try fixture.count == Int64(round + 1) * 400)
            let damage = try fixture.database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
            #expect(damage == "ok")
        }
        let names = try fixture.names
        fixture.database.close()
        let again = try Database(path: fixture.folder.file())
        defer { again.close() }
        #expect(try again.read { try $0.all("SELECT name FROM things ORDER BY id") { $0.text(0) } } == names)
    }

    @Test("every commit is in the file system before its caller is answered: a copy of the files holds it")
    func copied() async throws {
        let fixture = try Fixture { $0.synchronous = .full }
        for number in 0..<50 {
            try await fixture.database.write { try insertThing($0, "\(number)") }
            let copy = fixture.folder.file() + ".copy"
            for suffix in ["", "-wal"] {
                try? FileManager.default.removeItem(atPath: copy + suffix)
                try FileManager.default.copyItem(atPath: fixture.folder.file() + suffix, toPath: copy + suffix)
            }
            try? FileManager.default.removeItem(atPath: copy + "-shm")
            let other = try Database(path: copy)
            #expect(try countThings(other) == Int64(number) + 1)
            other.close()
        }
    }
}

extension LogBufferTests {
    @Test("what a rolled back transaction left in the buffer never reaches the log, where another process has written since")
    func rolledBack() async throws {
        struct Undone: Error {}
        // So small a cache that the transaction spills into the log, so that bytes of it are gathered.
        let fixture = try Fixture {
            $0.synchronous = .full
            $0.writerCacheKibibytes = 16
        }
        try await fixture.database.write { try insertThing($0, "before") }
        let other = try Database(path: fixture.folder.file())
        for round in 0..<3 {
            let spilled = Task {
                try await fixture.database.write { connection in
                    for number in 0..<200 { try insertThing(connection, "\(number) " + String(repeating: "x", count: 4_000)) }
                    throw Undone()
                }
            }
            await #expect(throws: Undone.self) { try await spilled.value }
            try other.writeBlocking { try insertThing($0, "other \(round)") }
            try await fixture.database.write { try insertThing($0, "after \(round)") }
        }
        other.close()
        let damage = try fixture.database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
        #expect(damage == "ok")
        #expect(try fixture.names == ["before"] + (0..<3).flatMap { ["other \($0)", "after \($0)"] })
    }
}
