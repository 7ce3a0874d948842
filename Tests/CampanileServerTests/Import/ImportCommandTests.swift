import CampanileCore
import Foundation
import SQLEngine
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// `campanile import` as an operator runs it.
@Suite("The import command", .endsIfItHangs)
struct ImportCommandTests {
    private static let path =
        URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "campanile").path()

    private let folder = TemporaryFolder()

    /// Runs the command to its end. - Returns: its exit status and what it said.
    private func run(_ arguments: [String], database: String? = nil) throws -> (status: Int32, lines: [String]) {
        let running = try ProgramTests.Running(["import"] + arguments + ["--database", database ?? folder.database])
        while running.line(with: "\u{0}") != nil {}
        return (running.program.waitUntilEnded(), running.lines)
    }

    private func file(_ text: String, _ name: String = "file.csv") throws -> String {
        try text.write(toFile: folder.path + "/" + name, atomically: true, encoding: .utf8)
        return folder.path + "/" + name
    }

    private static let entries = """
        user_id,title,created_at,read_at,external_id
        alice,One,2026-01-01T00:00:00Z,,1
        alice,Two,2026-01-02T00:00:00Z,2026-01-03T00:00:00Z,2
        bob,Three,2026-01-01T00:00:00Z,,3

        """

    private func counts(_ database: String? = nil) throws -> [Int64] {
        try Database.read(path: database ?? folder.database) { connection in
            let row = try connection.first(
                """
                SELECT (SELECT count(*) FROM notifications), (SELECT count(*) FROM imported_entries),
                    (SELECT count(*) FROM device_tokens)
                """
            ) { [$0.int(0), $0.int(1), $0.int(2)] }
            return row ?? []
        }
    }

    @Test("a file is imported once, and a second run says that it is there")
    func twice() throws {
        let path = try file(Self.entries)
        let first = try run(["notifications", path])
        #expect(first.status == 0 && first.lines == ["Imported 3 notifications of 3 records."])
        let second = try run(["notifications", path])
        #expect(
            second.status == 0
                && second.lines == ["Imported 0 notifications of 3 records.", "3 were here already, and stay."])
        #expect(try counts() == [3, 3, 0])
        let audit = try ChildProgram(Self.path, ["badge", "audit", "--database", folder.database])
        #expect(audit.waitUntilEnded() == 0)
    }

    @Test("mistakes are told with their lines, the status is 1, and nothing is written")
    func mistakes() throws {
        let path = try file(Self.entries + "alice,,yesterday,,4\nalice\n")
        let ended = try run(["notifications", path])
        #expect(ended.status == 1)
        #expect(
            ended.lines == [
                "line 5: created_at must be an RFC 3339 time, such as 2026-11-21T08:00:00Z.", "line 5: title is required.",
                "line 6: The line has 1 field, and the header 5.",
                "3 mistakes in 2 records of 5. Nothing was imported.",
            ])
        #expect(try counts() == [0, 0, 0])
    }

    @Test("a dry run says what would be done, and needs a database that is there")
    func dryRun() throws {
        let path = try file(Self.entries)
        let missing = try run(["notifications", path, "--dry-run"])
        #expect(missing.status != 0 && missing.lines.last?.contains("There is no database") == true)
        #expect(!FileManager.default.fileExists(atPath: folder.database))
        _ = try run(["devices", try file("user_id,token,platform,last_registered_at\n", "none.csv")])
        let ended = try run(["notifications", path, "--dry-run"])
        #expect(ended.status == 0 && ended.lines == ["Would import 3 notifications of 3 records."])
        #expect(try counts() == [0, 0, 0])
    }

    @Test("standard input is taken from a pipe, and leaves no file behind")
    func standardInput() throws {
        let path = try file(
            #"{"user_id":"alice","token":"ab","platform":"ios","last_registered_at":"2026-01-01T00:00:00Z"}"#)
        let shell = #"cat "$0" | "$1" import devices - --database "$2""#
        let program = try ChildProgram("/bin/sh", ["-c", shell, path, Self.path, folder.database])
        #expect(program.waitUntilEnded() == 0)
        #expect(try counts() == [0, 0, 1])
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(!names.contains { $0.contains("import") }, "\(names)")
    }

    @Test("what can't be read is told in a sentence", arguments: [("nowhere.csv", "can't be opened"), ("", "is a folder")])
    func unreadable(_ name: String, _ sentence: String) throws {
        let ended = try run(["devices", folder.path + "/" + name])
        #expect(ended.status != 0 && ended.lines.last?.contains(sentence) == true, "\(ended)")
    }

    @Test("killed at any moment and run again, it has done what one run does")
    func killed() throws {
        let count = 20_000
        let lines = (0..<count).map { "user\($0 % 97),Title,2026-01-01T00:00:\($0 % 60 < 10 ? "0" : "")\($0 % 60)Z,,\($0)\n" }
        let path = try file("user_id,title,created_at,read_at,external_id\n" + lines.joined())
        var kills = 0
        for _ in 0..<10 where kills == 0 {
            for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: folder.database + suffix) }
            for wanted in [1, 5_000, 12_000] as [Int64] {
                let program = try ChildProgram(Self.path, ["import", "notifications", path, "--database", folder.database])
                while (try? counts())?[1] ?? 0 < wanted {
                    guard waitpid(program.id, nil, WNOHANG) == 0 else { break }
                    usleep(1_000)
                }
                program.kill()
                let found = try counts()
                #expect(found[0] == found[1], "an entry and its name are written together")
                // While the machine is busy it may be through before anybody looks.
                if found[1] < Int64(count) { kills += 1 }
            }
        }
        #expect(kills > 0, "it was never killed in the middle")
        #expect(try run(["notifications", path]).status == 0)
        #expect(try counts() == [Int64(count), Int64(count), 0])
        let database = try Store.open(folder.database, world: .live).database.sqlite
        defer { database.close() }
        #expect(try BadgeAudit(Store(database)).differences.isEmpty)
        #expect(try database.read { try $0.store.inboxes.sums().notifications } == Int64(count))
    }

    @Test("beside a running server: it serves what came in, without another start")
    func besideServer() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let before = try await server.client.get("/badge", as: alice)
            #expect(try before.json["unread_count"] == 0)
            let ended = try run(["notifications", try file(Self.entries)], database: server.folder.database)
            #expect(ended.status == 0)
            var badge = before
            while try badge.json["unread_count"] != 1 { badge = try await server.client.get("/badge", as: alice) }
            #expect(try badge.json["count"] == 0)
            let list = try await server.client.get("/notifications", as: alice)
            #expect(try list.json["badge"]?["unread_count"] == 1)
            guard case .array(let entries)? = try list.json["notifications"] else {
                Issue.record("no list: \(list)")
                return
            }
            #expect(entries.map { $0["title"] } == ["Two", "One"])
        }
    }

    @Test("a command refuses to change the schema under a server, before it changes anything; without the server it does")
    func besideEarlierServer() throws {
        let database = folder.database
        try Migrator(migrations: Migrations.all.dropLast(), applicationID: Migrations.applicationID).migrate(path: database)
        let path = try file(Self.entries)
        let lock = try ServerLock(database: database)
        let commands = [
            ["import", "notifications", path], ["import", "notifications", path, "--dry-run"], ["import", "devices", path],
            ["keys", "create", "shop"], ["migrate"], ["stats"],
        ]
        for command in commands {
            let running = try ProgramTests.Running(command + ["--database", database])
            #expect(running.line(with: "Start that server again with this version first") != nil, "\(command): \(running.lines)")
            while running.line(with: "\u{0}") != nil {}
            #expect(running.program.waitUntilEnded() == 1, "\(command)")
        }
        #expect(try Migrations.migrator.pending(path: database).count == 1)
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(!files.contains { $0.contains("before") }, "\(files)")
        lock.release()
        #expect(try run(["notifications", path]).status == 0)
        #expect(try counts() == [3, 3, 0])
    }

    @Test("while it fills a database without a server, none can start on it; afterwards one can")
    func lock() async throws {
        let text =
            "user_id,title,created_at,external_id\n"
            + (0..<2_000).map { "alice,Title,2026-01-01T00:00:00Z,\($0)\n" }.joined()
        var configuration = Configuration()
        configuration.database = folder.database
        let work = try DatabaseImport(of: .notifications, configuration, app: "default", world: .live)
        let database = folder.database
        let refusals = Counter()
        let report = try await work.run(try file(text), isDryRun: false) {
            guard case .write = $0, $1 > 0, $2 > 0 else { return }
            if (try? ServerLock(database: database)) == nil { refusals.add() }
        }
        #expect(report[.made] == 2_000 && refusals.current > 0)
        _ = try ServerLock(database: database)
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)
        var current: Int { count.withLock(\.self) }
        func add() { count.withLock { $0 += 1 } }
    }
}
