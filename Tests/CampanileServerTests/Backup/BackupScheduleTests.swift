import CampanileCore
import Foundation
import Logging
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

@Suite("Scheduled backups", .endsIfItHangs, .aboutTheFile) struct BackupScheduleTests {
    private static func schedule(_ fixture: Fixture, keep: Int = 3) -> BackupSchedule {
        var configuration = Configuration()
        configuration.database = fixture.folder.database
        configuration.backup.directory = fixture.folder.path + "/backups"
        configuration.backup.keep = keep
        return BackupSchedule(
            database: fixture.store, configuration: configuration, world: fixture.world,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    private static func names(_ fixture: Fixture) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path + "/backups").sorted()
    }

    @Test("the first is due at once, the next when its time has come, also for another start of the server")
    func due() async throws {
        let fixture = try Fixture()
        let first = try await Self.schedule(fixture).makeIfDue()
        #expect(first == fixture.folder.path + "/backups/campanile-20261118T110640Z.sqlite")
        fixture.clock.advance(seconds: 24 * 3_600 - 1)
        #expect(try await Self.schedule(fixture).makeIfDue() == nil)
        fixture.clock.advance(seconds: 1)
        #expect(try await Self.schedule(fixture).makeIfDue() != nil)
        #expect(try Self.names(fixture) == ["campanile-20261118T110640Z.sqlite", "campanile-20261119T110640Z.sqlite"])
    }

    @Test("as many are kept as wanted, the newest, with their secrets, and files of others stay")
    func kept() async throws {
        let fixture = try Fixture()
        _ = try LocalSecret.readOrMake(besideDatabase: fixture.folder.database, world: fixture.world)
        let schedule = Self.schedule(fixture, keep: 2)
        _ = try await schedule.makeIfDue()
        for name in ["notes.txt", "campanile-1.sqlite", "campanile-20261118T110640Z.sqlite.old"] {
            try Data().write(to: URL(filePath: fixture.folder.path + "/backups/" + name))
        }
        for _ in 0..<3 {
            fixture.clock.advance(seconds: 24 * 3_600)
            _ = try await schedule.makeIfDue()
        }
        #expect(
            try Self.names(fixture) == [
                "campanile-1.sqlite", "campanile-20261118T110640Z.sqlite.old", "campanile-20261120T110640Z.sqlite",
                "campanile-20261120T110640Z.sqlite.jwt_secret", "campanile-20261121T110640Z.sqlite",
                "campanile-20261121T110640Z.sqlite.jwt_secret", "notes.txt",
            ])
    }

    @Test("a clock that was set back stops no backups, and takes away none of those that seem to come later")
    func clockSetBack() async throws {
        let fixture = try Fixture()
        let schedule = Self.schedule(fixture, keep: 1)
        _ = try await schedule.makeIfDue()
        fixture.clock.jump(seconds: -3_600)
        #expect(try await schedule.makeIfDue() != nil)
        #expect(try await schedule.makeIfDue() == nil, "one is enough")
        #expect(try Self.names(fixture) == ["campanile-20261118T100640Z.sqlite", "campanile-20261118T110640Z.sqlite"])
    }

    @Test("the doctor finds a newest backup that is older than twice its schedule, and a folder without any or that isn't one")
    func examined() async throws {
        let fixture = try Fixture()
        let schedule = Self.schedule(fixture)
        let folder = fixture.folder.path + "/backups"
        func finding(_ directory: String?) async -> Doctor.Finding? {
            var configuration = schedule.configuration
            configuration.backup.directory = directory
            return await Doctor(configuration, world: fixture.world, logger: schedule.logger).examine()
                .first { $0.subject == "backups" }
        }
        #expect(await finding(nil) == nil)
        var found = try #require(await finding(folder))
        #expect(!found.isGood && found.sentence.hasPrefix("There is none in \(folder): "))
        _ = try await schedule.makeIfDue()
        fixture.clock.advance(seconds: 2 * 24 * 3_600)
        found = try #require(await finding(folder))
        #expect(found.isGood && found.sentence == "The newest in \(folder) was begun at 2026-11-18T11:06:40.000Z.")
        fixture.clock.advance(milliseconds: 1)
        found = try #require(await finding(folder))
        #expect(!found.isGood && found.sentence.contains("longer ago than twice backup.every"))
        _ = try await schedule.makeIfDue()
        #expect(await finding(folder)?.isGood == true)
        found = try #require(await finding(fixture.folder.database))
        #expect(!found.isGood && found.sentence.hasPrefix("\(fixture.folder.database) can't be read: "))
    }

    @Test("what a crash left of a copy goes with the next backup, but not a copy that is being made")
    func abandoned() async throws {
        let fixture = try Fixture()
        let folder = fixture.folder.path + "/backups"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for name in ["old", "new"] {
            let path = "\(folder)/campanile-20261101T000000Z.sqlite.partial-\(name)"
            try Data().write(to: URL(filePath: path))
            let changed = Date(timeIntervalSinceNow: name == "old" ? -90_000 : -60)
            try FileManager.default.setAttributes([.modificationDate: changed], ofItemAtPath: path)
        }
        _ = try await Self.schedule(fixture).makeIfDue()
        #expect(
            try Self.names(fixture) == [
                "campanile-20261101T000000Z.sqlite.partial-new", "campanile-20261118T110640Z.sqlite",
            ])
    }

    @Test("a secret whose database never came goes too, after a day")
    func orphan() async throws {
        let fixture = try Fixture()
        let folder = fixture.folder.path + "/backups"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        func make(_ name: String, hoursAgo: Double) throws {
            try Data().write(to: URL(filePath: "\(folder)/\(name)"))
            let changed = Date(timeIntervalSinceNow: -hoursAgo * 3_600)
            try FileManager.default.setAttributes([.modificationDate: changed], ofItemAtPath: "\(folder)/\(name)")
        }
        try make("campanile-20261101T000000Z.sqlite.jwt_secret", hoursAgo: 25)
        try make("campanile-20261102T000000Z.sqlite.jwt_secret", hoursAgo: 1)
        try make("campanile-20261103T000000Z.sqlite", hoursAgo: 25)
        try make("campanile-20261103T000000Z.sqlite.jwt_secret", hoursAgo: 25)
        try make("other.jwt_secret", hoursAgo: 25)
        _ = try await Self.schedule(fixture).makeIfDue()
        #expect(
            try Self.names(fixture) == [
                "campanile-20261102T000000Z.sqlite.jwt_secret", "campanile-20261103T000000Z.sqlite",
                "campanile-20261103T000000Z.sqlite.jwt_secret", "campanile-20261118T110640Z.sqlite", "other.jwt_secret",
            ])
    }

    @Test("a backup that is served where it lies is no old one")
    func served() async throws {
        let clock = HandClock()
        let folder = TemporaryFolder()
        let path = folder.path + "/" + DatabaseBackup.name(at: Timestamp(milliseconds: clock.now.milliseconds - 86_400_000))
        let database = try Store.open(path, world: .hand(clock)).database.sqlite
        defer { database.close() }
        var configuration = Configuration()
        configuration.database = path
        configuration.backup.directory = folder.path
        configuration.backup.keep = 1
        let schedule = BackupSchedule(
            database: Store(database), configuration: configuration, world: .hand(clock),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        for _ in 0..<3 {
            #expect(try await schedule.makeIfDue() != nil)
            clock.advance(seconds: 86_400)
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".sqlite") }
        #expect(names.count == 2 && Store.exists(path))
    }

    @Test("a folder that vanishes is made again; where none can be made the backup fails, and the next try makes it")
    func vanished() async throws {
        let fixture = try Fixture()
        let folder = fixture.folder.path + "/backups"
        let schedule = Self.schedule(fixture)
        #expect(try await schedule.makeIfDue() != nil)
        try FileManager.default.removeItem(atPath: folder)
        #expect(try await schedule.makeIfDue() != nil)
        try FileManager.default.removeItem(atPath: folder)
        try Data().write(to: URL(filePath: folder))
        await #expect(throws: (any Error).self) { try await schedule.makeIfDue() }
        try FileManager.default.removeItem(atPath: folder)
        #expect(try await schedule.makeIfDue() != nil)
    }

    @Test("without a folder none is made; a server with one makes its first at the start")
    func server() async throws {
        let clock = HandClock()
        let folder = TemporaryFolder()
        let server = try await RunningServer(folder: folder, clock: clock) {
            $0.backup.directory = folder.path + "/backups"
        }
        try await stopping(server) { _ in
            let file = folder.path + "/backups/" + DatabaseBackup.name(at: clock.now)
            try await lookUntil { Store.exists(file) }
        }
        try await withServer { server in
            let schedule = BackupSchedule(
                database: Store(server.app.database), configuration: server.app.configuration, world: server.world,
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
            let made = try await schedule.makeIfDue()
            #expect(made == nil)
        }
    }
}
