import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Backups", .aboutTheFile) struct DatabaseBackupTests {
    private static func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test("a backup beside a running server holds what was acknowledged, and the server's secret")
    func besideServer() async throws {
        let fixture = try Fixture()
        _ = try LocalSecret.readOrMake(besideDatabase: fixture.folder.database, world: fixture.world)
        let id = try await fixture.create()
        let folder = fixture.folder.path + "/new/backups"
        let target = DatabaseBackup.target(folder + "/", now: fixture.clock.now)
        #expect(target == folder + "/campanile-20261118T110640Z.sqlite")
        try DatabaseBackup(of: fixture.folder.database).make(at: target) { _, _ in }

        #expect(try Self.mode(folder) == 0o700)
        #expect(try Self.mode(target) == 0o600 && Self.mode(target + ".jwt_secret") == 0o600)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
                == ["campanile-20261118T110640Z.sqlite", "campanile-20261118T110640Z.sqlite.jwt_secret"])
        #expect(
            try String(contentsOfFile: target + ".jwt_secret", encoding: .utf8)
                == String(contentsOfFile: fixture.folder.database + ".jwt_secret", encoding: .utf8))
        let copy = try Store.open(target, world: fixture.world).database.sqlite
        defer { copy.close() }
        #expect(try copy.read { try $0.store.deliveries.inbox(ofNotification: id) } != nil)
        #expect(try BadgeAudit(Store(copy)).differences.isEmpty)
    }

    @Test("a backup has the name that it was given, or in a folder one by the time, which can be read again")
    func names() throws {
        let folder = TemporaryFolder()
        let now = Timestamp(milliseconds: 1_795_000_000_999)
        #expect(DatabaseBackup.target(folder.path, now: now) == folder.path + "/campanile-20261118T110640Z.sqlite")
        #expect(DatabaseBackup.target(folder.path + "/copy.sqlite", now: now) == folder.path + "/copy.sqlite")
        #expect(DatabaseBackup.time(ofName: DatabaseBackup.name(at: now)) == Timestamp(milliseconds: 1_795_000_000_000))
        for other in [
            "campanile.sqlite", "campanile-20261118T110640Z.sqlite.jwt_secret", "campanile-20261318T110640Z.sqlite",
            "campanile-20261118-110640Z.sqlite", "campanile-20261118T110640Z.sqlite.partial-1",
            "campanile-é0261118T110640Z.sqlite",
        ] {
            #expect(DatabaseBackup.time(ofName: other) == nil, "\(other)")
        }
    }

    @Test("nothing is overwritten, and nothing stays of a backup that fails")
    func refused() async throws {
        let fixture = try Fixture()
        let database = fixture.folder.database
        _ = try LocalSecret.readOrMake(besideDatabase: database, world: fixture.world)
        let target = fixture.folder.path + "/copy"
        try Data("mine".utf8).write(to: URL(filePath: target))
        #expect(throws: OperatorError("\(target) is there already: a backup overwrites nothing.")) {
            try DatabaseBackup(of: database).make(at: target) { _, _ in }
        }
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "mine")
        #expect(!Store.exists(target + ".jwt_secret"))

        let stopped = fixture.folder.path + "/stopped"
        #expect(throws: OperatorError("Stopped.")) {
            try DatabaseBackup(of: database).make(at: stopped) { _, _ in throw OperatorError("Stopped.") }
        }
        #expect(!Store.exists(stopped) && !Store.exists(stopped + ".jwt_secret"))
        #expect(throws: OperatorError("There is no database \(database)x. Name it with --database.")) {
            try DatabaseBackup(of: database + "x").make(at: stopped) { _, _ in }
        }
    }

    @Test("a name that leads elsewhere or belongs to the database is none for a backup, even while nothing has it")
    func wrongNames() throws {
        let folder = TemporaryFolder()
        try Store.open(folder.database, world: .live).database.sqlite.close()
        let link = folder.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.path + "/nowhere")
        let other = folder.path + "/other.sqlite"
        try FileManager.default.createSymbolicLink(atPath: other, withDestinationPath: folder.database)
        func sentence(_ target: String, of database: String) -> String {
            do {
                try DatabaseBackup(of: database).make(at: target) { _, _ in }
                return "made"
            } catch {
                return "\(error)"
            }
        }
        for taken in [link, folder.database, other] {
            #expect(sentence(taken, of: folder.database) == "\(taken) is there already: a backup overwrites nothing.")
        }
        for database in [folder.database, other] {
            for suffix in ["-wal", "-shm", "-journal", ".lock", ".jwt_secret"] {
                let target = folder.database + suffix
                try? FileManager.default.removeItem(atPath: target)
                #expect(
                    sentence(target, of: database)
                        == "\(target) is a name for a part of the database itself: give the backup another one.")
                #expect(!Store.isTaken(target))
                // The folder by another name.
                let other = folder.path + "/./campanile.sqlite\(suffix)"
                #expect(sentence(other, of: database).hasSuffix("give the backup another one."))
            }
        }
        let below = folder.database + "/backup"
        #expect(sentence(below, of: folder.database).hasPrefix("The backup \(below) can't be made: "))
    }

    @Test("a database that is named by a symbolic link is backed up with the secret beside the file itself")
    func symbolicLink() async throws {
        let fixture = try Fixture()
        let (link, target) = (fixture.folder.path + "/link.sqlite", fixture.folder.path + "/copy")
        _ = try LocalSecret.readOrMake(besideDatabase: fixture.folder.database, world: fixture.world)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: fixture.folder.database)
        let id = try await fixture.create()
        try DatabaseBackup(of: link).make(at: target) { _, _ in }
        #expect(try Self.mode(target + ".jwt_secret") == 0o600)
        let found = try Database.read(path: target) { try $0.store.deliveries.inbox(ofNotification: id) }
        #expect(found != nil)
    }

    @Test("a backup leaves the schema as it is: it may be what an upgrade is made behind")
    func oldSchema() throws {
        let folder = TemporaryFolder()
        try Migrator(migrations: Array(Migrations.all.prefix(7)), applicationID: Migrations.applicationID)
            .migrate(path: folder.database)
        try DatabaseBackup(of: folder.database).make(at: folder.path + "/copy") { _, _ in }
        for path in [folder.database, folder.path + "/copy"] {
            #expect(try Store.pendingMigrations(path) == Migrations.all.dropFirst(7).map(\.name))
        }
    }
}
