import CampanileCore
import Foundation
import Logging
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

@Suite("Restoring a backup", .endsIfItHangs, .aboutTheFile) struct DatabaseRestoreTests {
    /// A fixture's database as it was, put into a folder of its own.
    static func restored(
        _ fixture: Fixture, pushesOwed: Bool = false
    ) throws -> (folder: TemporaryFolder, report: RestoreReport) {
        let backup = fixture.folder.path + "/backup"
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        let folder = TemporaryFolder()
        let report = try DatabaseRestore(of: backup, to: folder.database, world: fixture.world).run(pushesOwed: pushesOwed)
        return (folder, report)
    }

    // MARK: - Nothing comes twice

    /// The ids, versions and sequences that a server has given out to Alice and Bob.
    private struct GivenOut {
        var ids: [String] = []
        var versions: [Int64] = []
        var sequences: [Int64] = []
    }

    private static func use(_ server: RunningServer, users: [String]) async throws -> GivenOut {
        var given = GivenOut()
        let producer = try server.producer("p\(users.count)-\(UUID().uuidString.prefix(8))")
        for name in users {
            let user = try await server.user(name)
            let stream = try await server.stream("/notifications/stream", as: user)
            given.versions.append(try #require(try await server.client.get("/badge", as: user).json["version"]?.int))
            for _ in 0..<3 {
                let created = try await server.client.post(
                    "/notifications", #"{"user_id":"\#(name)","title":"T","body":"B"}"#, as: producer)
                given.ids.append(try #require(try created.json["id"]?.string))
            }
            let badge = try await server.client.get("/badge", as: user).json
            given.versions.append(try #require(badge["version"]?.int))
            var count: Int64?
            while count != badge["count"]?.int {
                let event = try #require(try await stream.next())
                given.sequences.append(try #require(Int64(event.id)))
                count = event.count ?? count
            }
            stream.close()
        }
        return given
    }

    @Test(
        "a restored server gives out no id, version or sequence that the lost one gave out, even with a clock that is behind",
        arguments: [0, -3_600, 3_600] as [Int64])
    func nothingTwice(_ seconds: Int64) async throws {
        let clock = HandClock()
        let lost = try await RunningServer(clock: clock)
        let backup = lost.folder.path + "/backup"
        let given: GivenOut
        do {
            _ = try await Self.use(lost, users: ["alice"])
            try DatabaseBackup(of: lost.folder.database).make(at: backup) { _, _ in }
            clock.advance(seconds: 60)
            // Bob is one whom only the lost server knew.
            given = try await Self.use(lost, users: ["alice", "bob"])
        }
        await lost.stop()
        clock.jump(seconds: seconds)
        let folder = TemporaryFolder()
        _ = try DatabaseRestore(of: backup, to: folder.database, world: .hand(clock)).run()
        try await stopping(try await RunningServer(folder: folder, clock: clock)) { server in
            let next = try await Self.use(server, users: ["alice", "bob", "carol"])
            #expect(try #require(next.ids.min()) > #require(given.ids.max()))
            #expect(try #require(next.versions.min()) > #require(given.versions.max()))
            #expect(try #require(next.sequences.min()) > #require(given.sequences.max()))
            for sequence in Set(given.sequences) {
                let stream = try await server.stream(
                    "/notifications/stream", as: try await server.user(), headers: ["Last-Event-ID": "\(sequence)"])
                let told = try await stream.next(2)
                stream.close()
                #expect(told.map(\.name) == ["reset", "badge"])
            }
        }
    }

    @Test("a second restore of the same backup gives out nothing of the first one's")
    func again() async throws {
        let fixture = try Fixture()
        try await fixture.create()
        let backup = fixture.folder.path + "/backup"
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        let (first, second) = (TemporaryFolder(), TemporaryFolder())
        _ = try DatabaseRestore(of: backup, to: first.database, world: fixture.world).run()
        fixture.clock.advance(seconds: 1)
        _ = try DatabaseRestore(of: backup, to: second.database, world: fixture.world).run()
        func reserved(_ folder: TemporaryFolder) throws -> (Int64, Int64, Int64) {
            try Database.read(path: folder.database) {
                try (
                    $0.store.programState.idsReservedUntil(), $0.store.inboxes.newest().version,
                    $0.store.events.lastSequence()
                )
            }
        }
        let (left, right) = (try reserved(first), try reserved(second))
        #expect(left.0 < right.0 && left.1 < right.1 && left.2 < right.2)
        // As whole numbers of JavaScript.
        #expect(right.2 < 1 << 53)
    }

    @Test("a restored database needs no log beside it, belongs to its owner alone, and its badges are those of a recount")
    func oneFile() async throws {
        let fixture = try Fixture()
        try await fixture.tell(3, to: "a", "b")
        _ = try LocalSecret.readOrMake(besideDatabase: fixture.folder.database, world: fixture.world)
        let (folder, report) = try Self.restored(fixture)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
                == ["campanile.sqlite", "campanile.sqlite.jwt_secret", "campanile.sqlite.lock"])
        for name in ["", ".jwt_secret"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: folder.database + name)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
        #expect(report.lines.contains("The secret beside the backup was restored, too."))
        let database = try Store.open(folder.database, world: fixture.world).database.sqlite
        defer { database.close() }
        #expect(try BadgeAudit(Store(database)).differences.isEmpty && BadgeAudit(Store(database)).inboxes == 1)
    }

    // MARK: - What was owed

    private static func states(_ folder: TemporaryFolder) throws -> [String] {
        try Database.read(path: folder.database) { connection in
            try connection.all(
                """
                SELECT state || ' ' || ifnull(reason, '-') || ' ' || (due_at IS NULL) || (settled_at IS NULL) FROM deliveries
                ORDER BY notification_id, device_id
                """
            ) { $0.text(0) }
        }
    }

    @Test("what was owed or in flight when the backup was made is settled, and no device hears of it")
    func settled() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a", "b")
        try await fixture.create()
        _ = try await fixture.claimDue()
        try await fixture.create()
        let (folder, report) = try Self.restored(fixture)
        let accepted = Array(repeating: "accepted - 10", count: 2)
        #expect(try Self.states(folder) == accepted + Array(repeating: "superseded restored 10", count: 4))
        #expect(report.settled == 4)
        try Database.read(path: folder.database) { connection in
            let due = try connection.store.deviceTokens.dueParts(nil)
            #expect(due.isEmpty)
            let devices = try connection.store.deviceTokens.devices(inbox: 1).map(\.schedule)
            #expect(devices.allSatisfy { !$0.isInFlight && $0.sending == nil && $0.badgeDueAt == nil })
            #expect(devices.allSatisfy { $0.toldCount == nil })
            #expect(devices.allSatisfy { $0.attempted }, "so the next change of the badge is told to them")
        }
    }

    @Test("an older program's call for many users is finished, and pushed only with pushesOwed", arguments: [false, true])
    func earlierCall(pushesOwed: Bool) async throws {
        let fixture = try Fixture()
        try await EarlierCall.leave(LargeCallTests.new(LargeCallTests.names(300)), served: 150, fixture.publisher)
        let folder = try Self.restored(fixture, pushesOwed: pushesOwed).folder
        let database = try Store.open(folder.database, world: fixture.world).database.sqlite
        defer { database.close() }
        let publisher = Publisher(
            database: Store(database), ids: try Store(database).idGenerator(world: fixture.world),
            badgePushes: fixture.badgePushes)
        try await publisher.finishEarlierCalls()
        let counts = try database.read { connection in
            try connection.all("SELECT push, count(*) FROM notifications GROUP BY push ORDER BY push") { ($0.int(0), $0.int(1)) }
        }
        #expect(counts.map(\.0) == (pushesOwed ? [1] : [0, 1]))
        #expect(counts.map(\.1) == (pushesOwed ? [300] : [150, 150]))
    }

    @Test("with pushesOwed it is sent at the next start")
    func owed() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        let (folder, report) = try Self.restored(fixture, pushesOwed: true)
        #expect(report.settled == nil)
        let provider = RecordingProvider()
        try await stopping(try await RunningServer(folder: folder, clock: fixture.clock, provider: provider)) { _ in
            await provider.untilSent()
        }
        #expect(provider.messages.map(\.summary) == ["alert a 1"])
    }

    @Test("a repeated call gets its first answer if the backup has it; otherwise it creates what was lost anew")
    func idempotency() async throws {
        let clock = HandClock()
        let lost = try await RunningServer(clock: clock)
        let backup = lost.folder.path + "/backup"
        let body = #"{"user_id":"alice","title":"T","body":"B"}"#
        let producer = try lost.producer()
        var ids: [String] = []
        for key in ["known", "unknown"] {
            let made = try await lost.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": key])
            ids.append(try #require(try made.json["id"]?.string))
            if key == "known" { try DatabaseBackup(of: lost.folder.database).make(at: backup) { _, _ in } }
        }
        await lost.stop()
        let folder = TemporaryFolder()
        _ = try DatabaseRestore(of: backup, to: folder.database, world: .hand(clock)).run()
        try await stopping(try await RunningServer(folder: folder, clock: clock)) { server in
            func again(_ key: String) async throws -> (id: String, isReplayed: Bool) {
                let answer = try await server.client.post(
                    "/notifications", body, as: producer, headers: ["Idempotency-Key": key])
                #expect(answer.status == 201)
                return (try #require(try answer.json["id"]?.string), answer.header("Idempotency-Replayed") == "true")
            }
            let known = try await again("known")
            #expect(known == (ids[0], true))
            let unknown = try await again("unknown")
            #expect(unknown.id > ids[1] && !unknown.isReplayed)
            #expect(try await again("unknown") == (unknown.id, true))
            let badge = try await server.client.get("/badge", as: try await server.user()).json
            #expect(badge["count"]?.int == 2)
        }
    }

    // MARK: - Retention

    @Test(
        "an old backup restored under a clock far ahead loses nothing for a day, whether retention had run before it or not",
        arguments: [false, true])
    func retention(hasRun: Bool) async throws {
        let day: Int64 = 86_400
        let fixture = try Fixture()
        try await fixture.tell(2, to: "a")
        var settings = Configuration.Retention()
        settings.notificationsMilliseconds = 100 * day * 1_000
        func retain(_ database: Database) async throws {
            let inboxes = Inboxes(
                database: Store(database), world: fixture.world, badgePushes: fixture.badgePushes,
                badgeCache: BadgeCache(capacity: 10))
            let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
            try await Housekeeping(
                database: Store(database), settings: settings, world: fixture.world, logger: logger, pause: .zero
            ).retain(inboxes)
        }
        var last = try #require(try fixture.store.readBlocking { try $0.inboxes.newest().change })
        if hasRun {
            fixture.clock.advance(seconds: day)
            last = fixture.clock.now
            try await retain(fixture.database)
        }
        fixture.clock.jump(seconds: 365 * day)
        let folder = try Self.restored(fixture).folder
        let database = try Store.open(folder.database, world: fixture.world).database.sqlite
        defer { database.close() }
        #expect(try database.read { try $0.store.programState.retainedAt() } == last)
        func left() throws -> Int64? {
            try database.read { try $0.first("SELECT count(*) FROM notifications") { $0.int(0) } }
        }
        try await retain(database)
        fixture.clock.advance(seconds: day - 1)
        try await retain(database)
        #expect(try left() == 2)
        fixture.clock.advance(seconds: 1)
        try await retain(database)
        #expect(try left() == 0)
    }

    // MARK: - What it refuses

    @Test("nothing is overwritten, whatever stands in the place, and nothing is left by a refusal")
    func taken() async throws {
        let fixture = try Fixture()
        let backup = fixture.folder.path + "/backup"
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let folder = TemporaryFolder()
            try Data("mine".utf8).write(to: URL(filePath: folder.database + suffix))
            let error = #expect(throws: OperatorError.self) {
                try DatabaseRestore(of: backup, to: folder.database, world: fixture.world).run()
            }
            #expect(error?.description.contains("move it away first") == true)
            #expect(try String(contentsOfFile: folder.database + suffix, encoding: .utf8) == "mine")
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(names == ["campanile.sqlite\(suffix)", "campanile.sqlite.lock"].sorted())
        }
    }

    @Test("while a server serves the place, even one whose file was moved away, nothing is restored")
    func served() async throws {
        try await withServer { server in
            let database = server.folder.database
            let backup = server.folder.path + "/backup"
            try DatabaseBackup(of: database).make(at: backup) { _, _ in }
            for isMoved in [false, true] {
                if isMoved { try FileManager.default.moveItem(atPath: database, toPath: database + ".moved") }
                #expect(throws: OperatorError("Another campanile serves the database \(database) already.")) {
                    try DatabaseRestore(of: backup, to: database, world: server.world).run()
                }
            }
            #expect(!Store.exists(database))
            try FileManager.default.moveItem(atPath: database + ".moved", toPath: database)
        }
    }

    @Test("what isn't a backup is refused in a sentence")
    func noBackup() throws {
        let folder = TemporaryFolder()
        let (empty, text) = (folder.path + "/empty", folder.path + "/text")
        try Data().write(to: URL(filePath: empty))
        try Data(repeating: 0x2A, count: 5_000).write(to: URL(filePath: text))
        func sentence(_ source: String) -> String {
            do {
                _ = try DatabaseRestore(of: source, to: folder.database, world: .live).run()
                return "restored"
            } catch {
                return "\(error)"
            }
        }
        #expect(sentence(folder.path + "/none") == "There is no file \(folder.path)/none.")
        #expect(sentence(empty) == "\(empty) holds no database.")
        #expect(sentence(text).hasPrefix("\(text) is not a SQLite database"))
        let foreign = folder.path + "/foreign"
        try Migrator(migrations: [Migration(version: 1, name: "one", sql: "CREATE TABLE t (id INTEGER)")], applicationID: 7)
            .migrate(path: foreign)
        #expect(sentence(foreign).hasPrefix("\(foreign) is a database of another program (application_id 7)"))
        #expect(!Store.exists(folder.database))
    }

    @Test("a torn backup is refused in a sentence, wherever it is torn, and nothing is left of it", arguments: ["half", "hole"])
    func torn(_ kind: String) async throws {
        let fixture = try Fixture()
        for _ in 0..<80 { try await fixture.create(data: "{\"text\":\"\(String(repeating: "x", count: 1_900))\"}") }
        let backup = fixture.folder.path + "/backup"
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        let file = try #require(FileHandle(forUpdatingAtPath: backup))
        let size = try file.seekToEnd()
        if kind == "half" {
            try file.truncate(atOffset: size / 2)
        } else {
            for page in stride(from: size / 8_192 * 3 / 4 * 8_192, to: size, by: 8_192) {
                try file.seek(toOffset: page)
                try file.write(contentsOf: Data(count: 512))
            }
        }
        try file.close()
        let folder = TemporaryFolder()
        let error = #expect(throws: OperatorError.self) {
            try DatabaseRestore(of: backup, to: folder.database, world: fixture.world).run()
        }
        let sentence = kind == "half" ? "\(backup) can't be read: " : "The backup \(backup) can't be restored: "
        #expect(error?.description.hasPrefix(sentence) == true, "\(error?.description ?? "")")
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(left == (kind == "half" ? [] : ["campanile.sqlite.lock"]))
    }

    @Test("a database of a newer version is refused with the way back, and that way leads back")
    func downgrade() async throws {
        let fixture = try Fixture()
        let id = try await fixture.create()
        try fixture.database.close()
        let path = fixture.folder.database
        let next = Migration(version: 1_000, name: "next", sql: "CREATE TABLE next (id INTEGER)")
        try Migrator(migrations: Migrations.all + [next], applicationID: Migrations.applicationID).migrate(path: path)
        var configuration = Configuration()
        configuration.database = path
        let error = #expect(throws: OperatorError.self) { try OperatorCommands(configuration, world: fixture.world) }
        let known = Migrations.migrator.newest
        #expect(error?.description.contains("by a newer Campanile (schema 1000, this program knows \(known))") == true)
        let words = try #require(error?.description.components(separatedBy: "run: campanile restore ").last)
        let newer = #expect(throws: OperatorError.self) {
            try DatabaseRestore(of: path, to: path + "2", world: fixture.world).run()
        }
        #expect(newer?.description.hasSuffix("restore it with that version, or take an older backup.") == true)

        try FileManager.default.moveItem(atPath: path, toPath: path + ".newer")
        _ = try DatabaseRestore(of: words, to: path, world: fixture.world).run()
        let operations = try OperatorCommands(configuration, world: fixture.world)
        defer { operations.close() }
        #expect(try operations.explain(id.description) == ["Nothing was owed: the user had no device when it was created."])
        #expect(try await operations.notify(user: "alice", app: "default", title: "T", body: "B") > id)
    }

    @Test("a secret beside the place stays, and the report says so")
    func secretTaken() async throws {
        let fixture = try Fixture()
        let backup = fixture.folder.path + "/backup"
        _ = try LocalSecret.readOrMake(besideDatabase: fixture.folder.database, world: fixture.world)
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        let folder = TemporaryFolder()
        let own = try LocalSecret.readOrMake(besideDatabase: folder.database, world: .live).secret
        let report = try DatabaseRestore(of: backup, to: folder.database, world: fixture.world).run()
        #expect(
            report.lines.contains(
                "There is a secret beside the database already. It stays, and the one beside the backup isn't used."))
        #expect(try LocalSecret.readOrMake(besideDatabase: folder.database, world: .live).secret == own)
    }

    @Test("a newer file that can't be compared ends the restore in a sentence, and nothing has changed")
    func incomparable() async throws {
        let fixture = try Fixture()
        let (backup, old) = (fixture.folder.path + "/backup", fixture.folder.path + "/old")
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        try Migrator(migrations: Array(Migrations.all.prefix(1)), applicationID: Migrations.applicationID).migrate(path: old)
        let folder = TemporaryFolder()
        let error = #expect(throws: OperatorError.self) {
            try DatabaseRestore(of: backup, to: folder.database, world: fixture.world).run(newer: old)
        }
        #expect(error?.description.hasPrefix("\(old) can't be compared: ") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["campanile.sqlite.lock"])
    }

    // MARK: - What the operator has to look after

    @Test("the report names the keys and the revoked users, and with a newer file those that changed since")
    func since() async throws {
        let fixture = try Fixture()
        var configuration = Configuration()
        configuration.database = fixture.folder.database
        let operations = try OperatorCommands(configuration, world: fixture.world)
        defer { operations.close() }
        for name in ["old", "stays"] { _ = try operations.createKey(name: name, app: "default") }
        try operations.revoke(user: "alice", app: "default")
        let backup = fixture.folder.path + "/backup"
        try DatabaseBackup(of: fixture.folder.database).make(at: backup) { _, _ in }
        fixture.clock.advance(seconds: 60)
        _ = try operations.createKey(name: "new", app: "shop")
        try operations.revokeKey(name: "old")
        try operations.revoke(user: "bob", app: "default")

        let blind = try DatabaseRestore(of: backup, to: TemporaryFolder().database, world: fixture.world).run()
        #expect(
            blind.lines.suffix(5).map { $0.split(separator: "\t")[0] } == [
                "Keys made later are gone, and keys revoked later are valid again; revoke them again. Valid in it:",
                "  old", "  stays",
                "Users revoked later aren't revoked any more; revoke them again. Revoked in it:", "  alice",
            ])
        let report = try DatabaseRestore(of: backup, to: TemporaryFolder().database, world: fixture.world)
            .run(newer: fixture.folder.database)
        #expect(
            report.lines.suffix(6).map { $0.split(separator: "\t")[0] } == [
                "Keys made since, which are gone:", "  new",
                "Keys revoked since, which are valid again; revoke them again:", "  old",
                "Users revoked since, which they aren't any more; revoke them again:", "  bob",
            ])
    }
}
