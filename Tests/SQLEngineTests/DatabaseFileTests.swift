import Foundation
import SQLEngine
import Synchronization
import TestSupport
import Testing

@Suite("The file that a database is")
struct DatabaseFileTests {
    @Test("what is no file is refused with a sentence", arguments: ["folder", "queue", "link", "", ":memory:", "a\0b"])
    func noFile(_ name: String) throws {
        let folder = Folder()
        let path = name.isEmpty || name.hasPrefix(":") ? name : folder.file(name)
        if name == "folder" { #expect(mkdir(path, 0o700) == 0) }
        if name == "queue" { #expect(mkfifo(path, 0o600) == 0) }
        if name == "link" { #expect(symlink("nowhere", path) == 0) }
        let error = #expect(throws: SQLError.self) { try Database(path: path) }
        #expect(error?.code == .cantOpen)
        let words = ["folder": "is no file", "queue": "is no file", "link": "a symbolic link to a file that isn't there"]
        #expect(error?.message.contains(words[name] ?? "can't be the name of a database file") == true)
    }

    @Test("a symbolic link shares the log with the file that it leads to")
    func link() throws {
        let fixture = try Fixture()
        #expect(symlink("test.sqlite", fixture.folder.file("link")) == 0)
        let other = try Database(path: fixture.folder.file("link"))
        defer { other.close() }
        #expect(other.file.identity == fixture.database.file.identity)
        try other.writeBlocking { _ = try insertThing($0.connection, "through the link") }
        #expect(try fixture.count == 1)
        #expect(fixture.folder.names == ["link", "test.sqlite", "test.sqlite-shm", "test.sqlite-wal"])
    }
}

/// Files that are taken away and brought back under an open database.
private struct Away {
    let path: String
    init(_ fixture: Fixture, _ suffix: String = "") {
        path = fixture.folder.file() + suffix
        #expect(rename(path, path + ".away") == 0)
    }

    func bringBack() { #expect(rename(path + ".away", path) == 0) }
}

@Suite("A database whose files are taken away")
struct TakenAwayTests {
    private func writes(_ database: Database, _ name: String) -> ResultCode? {
        do {
            try database.writeBlocking { _ = try insertThing($0.connection, name) }
            return nil
        } catch {
            return (error as? SQLError)?.code
        }
    }

    @Test("is not written to, and goes on when they are back", arguments: ["", "-wal", "-shm"])
    func writing(_ suffix: String) async throws {
        let fixture = try Fixture()
        let told = Mutex<[ResultCode?]>([])
        fixture.database.onDisplacement { error in told.withLock { $0.append(error?.code) } }
        #expect(writes(fixture.database, "before") == nil)
        for round in 1...2 {
            let away = Away(fixture, suffix)
            let refused = fixture.database.refusals.count
            #expect(writes(fixture.database, "while") == .displaced)
            #expect(writes(fixture.database, "while") == .displaced)
            #expect(throws: SQLError.self) { try fixture.database.checkpoint(truncate: true) }
            await #expect(throws: SQLError.self) {
                try await fixture.database.rehearse { try insertThing($0.connection, "while") }
            }
            #expect(fixture.database.refusals.count == refused + 4)
            #expect(fixture.database.refusals.last?.code == .displaced)
            away.bringBack()
            #expect(writes(fixture.database, "after \(round)") == nil)
        }
        #expect(try fixture.names == ["before", "after 1", "after 2"])
        #expect(told.withLock { $0 } == [.displaced, nil, .displaced, nil], "told once each time")
    }

    @Test("what joins a group after its start isn't acknowledged either", arguments: [false, true])
    func joining(_ oneFails: Bool) async throws {
        let fixture = try Fixture()
        let told = Mutex<[ResultCode?]>([])
        fixture.database.onDisplacement { error in told.withLock { $0.append(error?.code) } }
        let away = Mutex<Away?>(nil)
        let results = await runGroup(
            fixture.database, after: { try insertThing($0, "first") },
            [
                { try insertThing($0.connection, "joins") },
                {
                    try insertThing($0.connection, "half done")
                    if oneFails { try insertThing($0.connection, "first") }
                },
            ],
            meanwhile: { away.withLock { $0 = Away(fixture) } })
        #expect(results.map { $0?.code } == [.displaced, .displaced, .displaced])
        #expect(told.withLock { $0 } == [.displaced], "at once, without a further write")
        #expect(fixture.database.refusals.count == 1)
        #expect(fixture.database.refusals.last?.code == .displaced)
        away.withLock { $0?.bringBack() }
        #expect(writes(fixture.database, "after") == nil)
        #expect(try fixture.names == ["after"])
    }

    @Test("tells of it without a write, while it looks for foreign changes", .endsIfItHangs)
    func byItself() async throws {
        let fixture = try Fixture()
        let (notices, continuation) = AsyncStream.makeStream(of: ResultCode?.self)
        fixture.database.onDisplacement { continuation.yield($0?.code) }
        fixture.database.onForeignChange {}
        let away = Away(fixture)
        for await notice in notices {
            #expect(notice == .displaced)
            break
        }
        away.bringBack()
        for await notice in notices {
            #expect(notice == nil)
            break
        }
    }

    @Test("is read with the connections that are open, one after another, and opens none")
    func reading() async throws {
        let fixture = try Fixture()
        #expect(writes(fixture.database, "kept") == nil)
        let gate = Gate()
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        // Holds the only connection.
        let first = onThread {
            try fixture.database.read { _ in
                continuation.finish()
                gate.stand()
            }
        }
        for await _ in entered {}
        let away = Away(fixture)
        try Data("not a database".utf8).write(to: URL(fileURLWithPath: fixture.folder.file()))
        let second = onThread {
            let names = try fixture.names
            #expect(names == ["kept"])
        }
        gate.open()
        try await first.value
        try await second.value
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.folder.file())) == Data("not a database".utf8))
        away.bringBack()
        #expect(try fixture.names == ["kept"])
    }

    @Test("a read that finds no connection fails")
    func noConnection() throws {
        let fixture = try Fixture { $0.busyTimeoutMilliseconds = 20 }
        let away = Away(fixture)
        let none = #expect(throws: SQLError.self) { try fixture.count }
        #expect(none?.code == .displaced)
        away.bringBack()
        #expect(try fixture.count == 0)
        _ = Away(fixture)
        let nested = #expect(throws: SQLError.self) {
            try fixture.database.read { _ in try fixture.count }
        }
        #expect(nested?.code == .displaced)
        #expect(try fixture.count == 0)
    }

    @Test("folds a log that is gone into the file as soon as nobody reads from it any more")
    func readers() throws {
        let fixture = try Fixture { $0.busyTimeoutMilliseconds = 20 }
        #expect(writes(fixture.database, "one") == nil)
        try fixture.database.snapshot { connection in
            let seen = try connection.first("SELECT count(*) FROM things") { $0.int(0) }
            #expect(seen == 1)
            #expect(writes(fixture.database, "two") == nil)
            #expect(unlink(fixture.folder.file() + "-wal") == 0)
            #expect(writes(fixture.database, "refused") == .displaced)
        }
        #expect(writes(fixture.database, "refused") == .displaced)
        // What a kill would leave: the file without its log.
        let copy = fixture.folder.file("copy.sqlite")
        try FileManager.default.copyItem(atPath: fixture.folder.file(), toPath: copy)
        let left = try Database(path: copy)
        defer { left.close() }
        #expect(try countThings(left) == 2)
    }

    @Test("folds a log that is gone into the file, and leaves one alone that isn't its own", arguments: [true, false])
    func closing(_ isReplaced: Bool) throws {
        let fixture = try Fixture()
        #expect(writes(fixture.database, "kept") == nil)
        _ = Away(fixture, "-wal")
        let log = fixture.folder.file() + "-wal"
        if isReplaced { try Data("another's".utf8).write(to: URL(fileURLWithPath: log)) }
        #expect(writes(fixture.database, "refused") == .displaced)
        fixture.database.close()
        if isReplaced {
            #expect(try Data(contentsOf: URL(fileURLWithPath: log)) == Data("another's".utf8))
        } else {
            let again = try Database(path: fixture.folder.file())
            defer { again.close() }
            #expect(try countThings(again) == 1)
        }
    }
}
