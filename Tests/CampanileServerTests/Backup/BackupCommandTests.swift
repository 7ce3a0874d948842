import Foundation
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// `backup` and `restore` as somebody runs them.
@Suite("The commands backup and restore", .endsIfItHangs, .aboutTheFile) struct BackupCommandTests {
    private let folder = TemporaryFolder()

    private func said(
        _ arguments: [String], environment: [String: String] = [:]
    ) throws -> (status: Int32, lines: [String]) {
        let running = try ProgramTests.Running(arguments, environment: environment)
        #expect(running.line(with: "\u{0}") == nil)
        return (running.program.waitUntilEnded(), running.lines)
    }

    private func output(_ arguments: [String]) throws -> String {
        try ChildProgram.output(of: ProgramTests.path, arguments).trimmingCharacters(in: .newlines)
    }

    private func names(_ path: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path).sorted()
    }

    /// A database that takes a while to copy.
    private func fill(mebibytes: Int) throws {
        let database = try Store.open(folder.database, world: .live).database.sqlite
        defer { database.close() }
        try database.writeBlocking { transaction in
            _ = try transaction.connection.run("CREATE TABLE filler (id INTEGER PRIMARY KEY, data BLOB)")
            for _ in 0..<mebibytes {
                _ = try transaction.connection.run("INSERT INTO filler (data) VALUES (zeroblob(1048576))")
            }
        }
        try database.checkpoint(truncate: true)
    }

    @Test("a drill: a backup beside the server, the loss, the restore beside what is left, and the server goes on")
    func drill() throws {
        let database = ["--database", folder.database]
        let server = try ProgramTests.Running(["serve", "--port", "0"] + database)
        #expect(server.line(with: "Campanile listens on") != nil)
        let before = try output(["notify", "alice", "Before", "B"] + database)
        let made = try output(["backup", folder.path + "/backups/"] + database)
        #expect(made.hasPrefix(folder.path + "/backups/campanile-") && made.hasSuffix("Z.sqlite"))
        _ = try output(["keys", "create", "late"] + database)
        _ = try output(["revoke", "bob"] + database)
        let after = try output(["notify", "alice", "After", "B"] + database)

        // Neither beside the server nor over its file.
        let lost = folder.path + "/lost.sqlite"
        let taken = try said(["restore", made] + database)
        #expect(taken.status == 1)
        #expect(taken.lines == ["Error: Another campanile serves the database \(folder.database) already."])
        server.program.kill()
        let overwriting = try said(["restore", made] + database)
        #expect(overwriting.status == 1 && overwriting.lines.first?.contains("a restore overwrites nothing") == true)
        for suffix in ["", "-wal", "-shm"] where Store.exists(folder.database + suffix) {
            try FileManager.default.moveItem(atPath: folder.database + suffix, toPath: lost + suffix)
        }
        let restored = try said(["restore", made, "--newer", lost] + database)
        #expect(restored.status == 0)
        #expect(restored.lines.first == "\(made) is restored to \(folder.database).")
        #expect(restored.lines.contains { $0.hasPrefix("  late\tdefault\tmade ") })
        #expect(restored.lines.contains { $0.hasPrefix("  bob\tdefault\ttokens before ") })

        let again = try ProgramTests.Running(["serve", "--port", "0"] + database)
        defer { again.program.kill() }
        #expect(again.line(with: "Campanile listens on") != nil)
        #expect(try output(["explain", before] + database).hasPrefix("Nothing was owed"))
        #expect(try output(["explain", after] + database).isEmpty, "it came after the backup")
        #expect(try output(["notify", "alice", "Anew", "B"] + database) > after)
        #expect(try said(["badge", "audit"] + database) == (0, ["1 inbox, 0 wrong."]))
    }

    @Test("an interrupted backup leaves nothing, also where Swift's pool has one thread")
    func interrupted() throws {
        try fill(mebibytes: 64)
        let backups = folder.path + "/backups"
        for _ in 0..<20 {
            let running = try ProgramTests.Running(
                ["backup", backups + "/copy", "--database", folder.database],
                environment: ["LIBDISPATCH_COOPERATIVE_POOL_STRICT": "1"])
            while try !Store.exists(backups) || names(backups).isEmpty {
                try Task.checkCancellation()
                usleep(1_000)
            }
            kill(running.program.id, SIGINT)
            let line = running.line(with: "Stopped: nothing was made.")
            let status = running.program.waitUntilEnded()
            // While the machine is busy the signal may come too late.
            if status == 0 {
                try FileManager.default.removeItem(atPath: backups)
                continue
            }
            #expect(line != nil && status == 1)
            #expect(try names(backups) == [])
            return
        }
        Issue.record("no signal ended a backup")
    }

    @Test("a disk that takes no more in the middle ends it in a sentence, and nothing stays")
    func full() throws {
        try fill(mebibytes: 8)
        _ = try LocalSecret.readOrMake(besideDatabase: folder.database, world: .live)
        let target = folder.path + "/backups/copy"
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        // A limit of the shell, of 2 or 4 MiB, stands for the end of the disk.
        let command = [ProgramTests.path, "backup", target, "--database", folder.database]
        let program = try ChildProgram("/bin/sh", ["-c", #"ulimit -f 4096; exec "$0" "$@""#] + command, errors: ends[1])
        close(ends[1])
        let said = try FileHandle(fileDescriptor: ends[0], closeOnDealloc: true).readToEnd() ?? Data()
        #expect(program.waitUntilEnded() == 1)
        let text = String(decoding: said, as: UTF8.self)
        #expect(text.hasPrefix("Error: The backup \(target) can't be made: "), "\(text)")
        #expect(try names(folder.path + "/backups") == [])
    }

    @Test("on a terminal a long command shows how far it is, and takes the line away; elsewhere it doesn't")
    func progress() throws {
        try fill(mebibytes: 16)
        let database = ["--database", folder.database]
        _ = try output(["notify", "alice", "T", "B"] + database)
        // As posix_openpt(3) and ptsname(3), which the header shows to X/Open's C only.
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        defer { close(terminal) }
        var (lock, number): (Int32, Int32) = (0, 0)
        try #require(terminal >= 0 && ioctl(terminal, 0x4004_5431, &lock) == 0 && ioctl(terminal, 0x8004_5430, &number) == 0)
        let name = "/dev/pts/\(number)"
        func shown(_ arguments: [String]) throws -> String {
            let other = open(name, O_RDWR | O_NOCTTY)
            let named = arguments.contains("--database") ? arguments : arguments + database
            let program = try ChildProgram(ProgramTests.path, named, errors: other)
            #expect(program.waitUntilEnded() == 0)
            // What was written comes through later, and behind it the end, when nobody has the other end open.
            close(other)
            var (bytes, text) = ([UInt8](repeating: 0, count: 65_536), [UInt8]())
            while case let count = read(terminal, &bytes, bytes.count), count > 0 { text += bytes[..<count] }
            return String(decoding: text, as: UTF8.self)
        }
        let clear = "\r\u{1B}[K"
        let (first, second) = (folder.path + "/first", folder.path + "/second")
        let backup = try shown(["backup", first])
        #expect(backup.contains("\(clear)Copying 1") && backup.contains(" %\(clear)"), "\(backup)")
        #expect(backup.contains("\(clear)Checking the copy…\(clear)The copy was read again"), "\(backup)")
        #expect(try shown(["badge", "audit"]).hasPrefix("\(clear)Counting 0 %\(clear)1 inbox"))
        let old = ["--database", folder.path + "/old.sqlite"]
        try Migrator(migrations: Array(Migrations.all.prefix(7)), applicationID: Migrations.applicationID).migrate(path: old[1])
        let migrating = try shown(["migrate"] + old)
        #expect(migrating.hasPrefix("\(clear)Bringing the schema up to date…\(clear)The database went from"), "\(migrating)")
        #expect(try said(["backup", second] + database).lines == ["The copy was read again and is sound."])
    }
}
