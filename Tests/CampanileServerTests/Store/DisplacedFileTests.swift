import CampanileCore
import Foundation
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

/// The database's file, or what SQLite keeps beside it, is taken away from a running server.
@Suite struct DisplacedFileTests {
    /// The things that somebody does, and how each is undone where it can be.
    enum Deed: CaseIterable {
        case removed, moved, replaced, folderMoved, linkTurned, logMoved, logRemoved, indexMoved, logReplaced

        var canBeUndone: Bool {
            switch self {
            case .removed, .logRemoved: false
            default: true
            }
        }

        var sentence: String {
            switch self {
            case .removed, .moved, .folderMoved: "its file was removed or moved away"
            case .replaced, .linkTurned: "another file is in its place"
            case .logMoved, .logRemoved, .indexMoved, .logReplaced:
                "its log (-wal, -shm) was removed or replaced"
            }
        }

        func `do`(_ folder: TemporaryFolder) throws {
            let database = folder.database
            switch self {
            case .removed: #expect(unlink(database) == 0)
            case .moved: #expect(rename(database, folder.path + "/away") == 0)
            case .replaced:
                try Database(path: folder.path + "/new").close()
                #expect(link(database, folder.path + "/away") == 0 && rename(folder.path + "/new", database) == 0)
            case .folderMoved: #expect(rename(folder.path, folder.path + "-away") == 0)
            case .linkTurned:
                try Database(path: folder.path + "/new").close()
                #expect(symlink("new", folder.path + "/link2") == 0 && rename(folder.path + "/link2", folder.path + "/link") == 0)
            case .logMoved: #expect(rename(database + "-wal", folder.path + "/away") == 0)
            case .logRemoved: #expect(unlink(database + "-wal") == 0)
            case .indexMoved: #expect(rename(database + "-shm", folder.path + "/away") == 0)
            case .logReplaced:
                try Data().write(to: URL(filePath: folder.path + "/new"))
                #expect(link(database + "-wal", folder.path + "/away") == 0)
                #expect(rename(folder.path + "/new", database + "-wal") == 0)
            }
        }

        func undo(_ folder: TemporaryFolder) {
            let database = folder.database
            switch self {
            case .removed, .logRemoved: break
            case .moved, .replaced: #expect(rename(folder.path + "/away", database) == 0)
            case .folderMoved: #expect(rename(folder.path + "-away", folder.path) == 0)
            case .linkTurned:
                #expect(unlink(folder.path + "/link") == 0 && symlink("campanile.sqlite", folder.path + "/link") == 0)
            case .logMoved, .logReplaced: #expect(rename(folder.path + "/away", database + "-wal") == 0)
            case .indexMoved: #expect(rename(folder.path + "/away", database + "-shm") == 0)
            }
        }
    }

    private static let token = Secret("a-token-for-the-metrics")

    private func server(_ deed: Deed, _ log: KeptLog) async throws -> RunningServer {
        let folder = TemporaryFolder()
        guard deed == .linkTurned else {
            return try await RunningServer(folder: folder, logger: log.logger) { $0.metrics.token = Self.token }
        }
        try Database(path: folder.database).close()
        #expect(symlink("campanile.sqlite", folder.path + "/link") == 0)
        return try await RunningServer(folder: folder, logger: log.logger) {
            $0.database = folder.path + "/link"
            $0.metrics.token = Self.token
        }
    }

    @Test(
        "nothing is acknowledged while the files aren't those that were opened, and why is said; reads go on",
        arguments: Deed.allCases)
    func displaced(_ deed: Deed) async throws {
        let log = KeptLog()
        let server = try await server(deed, log)
        let key = try server.producer()
        let alice = try await server.user()
        let created = try await server.client.post("/notifications", DatabaseFileTests.create, as: key)
        #expect(created.status == 201)
        #expect(try await server.client.get("/readyz").status == 200)

        try deed.do(server.folder)
        for _ in 0..<3 {
            let refused = try await server.client.post("/notifications", DatabaseFileTests.create, as: key)
            #expect(refused.status == 503 && refused.code == "unavailable")
            #expect(refused.header("retry-after") == "1")
            #expect(
                try refused.json["detail"]?.string
                    == "The database can't take this now: \(deed.sentence). Nothing was changed; try again.")
        }
        // The clock stands: the proof of a moment ago is not believed any more.
        let unready = try await server.client.get("/readyz", as: "Bearer \(Self.token.exposed)")
        #expect(unready.status == 503)
        #expect(try unready.json["reasons"]?.array.compactMap(\.string) == ["The database can't be written: \(deed.sentence)."])
        #expect(log.count("error The database's files aren't the ones that the server opened") == 1)
        #expect(try await DatabaseFileTests.unread(server) == 1)
        let list = try await server.client.get("/notifications", as: alice, headers: ["User-Agent": "Mozilla/5.0"])
        #expect(try list.json["notifications"]?.array.count == 1)

        if deed.canBeUndone {
            deed.undo(server.folder)
            #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: key).status == 201)
            server.clock.advance(seconds: 1)
            #expect(try await server.client.get("/readyz").status == 200)
            #expect(log.count("notice The database's files are back") == 1)
            #expect(try await DatabaseFileTests.unread(server) == 2)
        }
        await server.stop()
        guard deed != .removed else { return }
        // What was acknowledged is there; what was refused isn't.
        let again = try await RunningServer(folder: server.folder)
        #expect(try await DatabaseFileTests.unread(again) == (deed.canBeUndone ? 2 : 1))
        await again.stop()
    }

    @Test("readiness is lost without a write, as soon as the files are looked at")
    func unasked() async throws {
        let server = try await RunningServer()
        #expect(try await server.client.get("/readyz").status == 200)
        try Deed.moved.do(server.folder)
        #expect(throws: SQLError.self) { try server.app.database.pollForeignChange() }
        #expect(try await server.client.get("/readyz").status == 503)
        await server.stop()
    }

    @Test("a log that was removed is folded into the file: a copy of the file alone holds what was acknowledged")
    func folded() async throws {
        let server = try await RunningServer()
        let key = try server.producer()
        let create = { try await server.client.post("/notifications", DatabaseFileTests.create, as: key).status }
        for _ in 0..<5 { #expect(try await create() == 201) }
        try Deed.logRemoved.do(server.folder)
        #expect(try await create() == 503)
        let copy = TemporaryFolder()
        try FileManager.default.copyItem(atPath: server.folder.database, toPath: copy.database)
        await server.stop()
        let restored = try await RunningServer(folder: copy)
        #expect(try await DatabaseFileTests.unread(restored) == 5)
        await restored.stop()
    }

    /// SQLite would apply a log that it finds beside a file, whoever's it was.
    @Test(
        "a backup that is put in the file's place is what the next start finds, and the old file is whole",
        arguments: [true, false])
    func restored(_ isNoticed: Bool) async throws {
        let server = try await RunningServer()
        let key = try server.producer()
        let create = { try await server.client.post("/notifications", DatabaseFileTests.create, as: key).status }
        #expect(try await create() == 201)
        try server.app.database.checkpoint(truncate: true)
        let backup = TemporaryFolder()
        try FileManager.default.copyItem(atPath: server.folder.database, toPath: backup.database)
        for _ in 0..<9 { #expect(try await create() == 201) }
        let old = TemporaryFolder()
        #expect(rename(server.folder.database, old.database) == 0)
        #expect(rename(backup.database, server.folder.database) == 0)
        if isNoticed { #expect(try await create() == 503) }
        await server.stop()
        for (folder, count) in [(server.folder, 1), (old, 10)] {
            let database = try Database(path: folder.database)
            let damage = try database.read { try $0.first("PRAGMA integrity_check") { $0.text(0) } }
            #expect(damage == "ok")
            database.close()
            let again = try await RunningServer(folder: folder)
            #expect(try await DatabaseFileTests.unread(again) == Int64(count))
            await again.stop()
        }
    }
}
