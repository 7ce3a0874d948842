import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

/// The things that people do with the database's file: other names for it, and taking it away while it is served.
@Suite struct DatabaseFileTests {
    static let create = #"{"user_id":"alice","title":"T"}"#

    static func unread(_ server: RunningServer) async throws -> Int64? {
        try await server.client.get("/badge", as: try await server.user()).json["unread_count"]?.int
    }

    /// Another way to name the database of a folder, made if it has to be.
    enum Name: CaseIterable {
        case same, symbolicLink, linkOfALink, linkedFolder, relative, moved

        func make(for folder: TemporaryFolder) throws -> String {
            let database = folder.database
            switch self {
            case .same: return database
            case .symbolicLink:
                #expect(symlink("campanile.sqlite", folder.path + "/link.sqlite") == 0)
                return folder.path + "/link.sqlite"
            case .linkOfALink:
                #expect(symlink(database, folder.path + "/first") == 0 && symlink("first", folder.path + "/second") == 0)
                return folder.path + "/second"
            case .linkedFolder:
                #expect(symlink(".", folder.path + "/folder") == 0)
                return folder.path + "/folder/campanile.sqlite"
            case .relative:
                let up = FileManager.default.currentDirectoryPath.split(separator: "/").map { _ in "../" }.joined()
                return up + database.drop { $0 == "/" }
            case .moved:
                #expect(rename(database, folder.path + "/moved.sqlite") == 0)
                return folder.path + "/moved.sqlite"
            }
        }
    }

    @Test("one server works on a database, by whatever name the second was given it", arguments: Name.allCases)
    func secondServer(_ name: Name) async throws {
        let first = try await RunningServer()
        let second = try name.make(for: first.folder)
        let error = await #expect(throws: OperatorError.self) {
            try await RunningServer(folder: first.folder) { $0.database = second }
        }
        #expect(error.map { "\($0)" } == "Another campanile serves the database \(second) already.")
        await first.stop()
    }

    /// It would write to the log that the first has open, and the first would take that away when it ends.
    @Test("a second server doesn't start on a file that was put in the place of the first one's")
    func replaced() async throws {
        let first = try await RunningServer()
        let other = TemporaryFolder()
        try Database(path: other.database).close()
        #expect(rename(other.database, first.folder.database) == 0)
        await #expect(throws: OperatorError("Another campanile serves the database \(first.folder.database) already.")) {
            try await RunningServer(folder: first.folder)
        }
        await first.stop()
        let second = try await RunningServer(folder: first.folder)
        await second.stop()
    }

    @Test(
        "a symbolic link is the database that it leads to, for a server and for commands beside one",
        arguments: [Name.symbolicLink, .linkOfALink, .linkedFolder, .relative])
    func otherNames(_ name: Name) async throws {
        let first = try await RunningServer()
        let other = try name.make(for: first.folder)
        var configuration = Configuration()
        configuration.database = other
        let operations = try OperatorCommands(configuration, world: first.world)
        let key = "Bearer " + (try operations.createKey(name: "linked", app: AppName.standard))
        operations.close()
        #expect(try await first.client.post("/notifications", Self.create, as: key).status == 201)
        await first.stop()
        let second = try await RunningServer(folder: first.folder) { $0.database = other }
        #expect(try await Self.unread(second) == 1)
        #expect(try await second.client.post("/notifications", Self.create, as: key).status == 201)
        await second.stop()
        let names = try FileManager.default.contentsOfDirectory(atPath: first.folder.path)
        #expect(!names.contains { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") }, "\(names)")
    }

    @Test("a database that a server let go is free, although a program that is being started has its descriptors for a moment")
    func inheritedDescriptors() throws {
        let folder = TemporaryFolder()
        try Database(path: folder.database).close()
        let first = try ServerLock(database: folder.database)
        let name = URL(filePath: folder.path).lastPathComponent
        let mine = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }.filter {
            let file = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
            return file?.contains(name) == true
        }
        // As after a fork: the copies share the locks.
        let copies = mine.map { dup($0) }
        defer { for copy in copies { close(copy) } }
        #expect(copies.count == 2)
        #expect(throws: OperatorError.self) { try ServerLock(database: folder.database) }
        first.release()
        try ServerLock(database: folder.database).release()
    }

    @Test("a database with two hard links is refused by servers and commands, under both names, until one is left")
    func hardLinks() async throws {
        let first = try await RunningServer()
        await first.stop()
        let other = first.folder.path + "/other.sqlite"
        #expect(link(first.folder.database, other) == 0)
        for name in [first.folder.database, other] {
            let error = await #expect(throws: OperatorError.self) {
                try await RunningServer(folder: first.folder) { $0.database = name }
            }
            #expect(error?.description.contains("\(name)") == true && error?.description.contains("2 hard links") == true)
            var configuration = Configuration()
            configuration.database = name
            let command = #expect(throws: OperatorError.self) { try OperatorCommands(configuration, world: first.world) }
            #expect(command?.description == error?.description)
            let look = #expect(throws: OperatorError.self) { try OperatorCommands.pendingMigrations(configuration) }
            #expect(look?.description == error?.description)
        }
        #expect(unlink(other) == 0)
        let second = try await RunningServer(folder: first.folder)
        await second.stop()
    }

    @Test("a command leaves the log to the server, however long it is")
    func logOfTheServer() throws {
        let folder = TemporaryFolder()
        var configuration = Configuration()
        configuration.database = folder.database
        var options = DatabaseOptions()
        options.walAutocheckpointPages = .max
        let server = try Store.open(folder.database, options: options, world: .live).database.sqlite
        try server.checkpoint(truncate: true)
        // Longer than what a program without this setting would copy.
        try server.writeBlocking { transaction in
            for number in 0..<130 {
                _ = try transaction.connection.run(
                    "INSERT INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at) VALUES (1, $1, x'', randomblob(65536), 1)",
                    "\(number)")
            }
        }
        let before = try Data(contentsOf: URL(fileURLWithPath: folder.database))
        let operations = try OperatorCommands(configuration, world: .live)
        for number in 0..<5 { _ = try operations.createKey(name: "key-\(number)", app: AppName.standard) }
        operations.close()
        let command = try Store.open(folder.database, world: .live).database.sqlite
        for number in 0..<5 {
            try command.writeBlocking { _ = try $0.connection.run("DELETE FROM idempotency_keys WHERE key = $1", "\(number)") }
        }
        command.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.database)) == before)
        server.close()
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.database)).count > 8_000_000)
    }

    @Test("a symbolic link to a file that isn't there is refused, and nothing is made")
    func danglingLink() async throws {
        let folder = TemporaryFolder()
        #expect(symlink(folder.path + "/unmounted.sqlite", folder.database) == 0)
        let error = await #expect(throws: OperatorError.self) { try await RunningServer(folder: folder) }
        #expect(error?.description.contains("is a symbolic link to a file that isn't there") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["campanile.sqlite"])
    }

    /// Closing any descriptor of a file drops all POSIX locks that the process holds on it.
    @Test("a refused start leaves the locks alone that SQLite holds for the server that runs in the same process")
    func locks() async throws {
        let first = try await RunningServer()
        // Closed after the server.
        let descriptor = open(first.folder.database, O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        // F_OFD_GETLK tells a descriptor of the locks of processes, also of its own. The bytes are SQLite's for readers.
        let isHeld = {
            var range = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0x4000_0002, l_len: 510, l_pid: 0)
            return fcntl(descriptor, 36, &range) == 0 && range.l_type == Int16(F_RDLCK)
        }
        #expect(isHeld(), "the control")
        await #expect(throws: OperatorError("Another campanile serves the database \(first.folder.database) already.")) {
            try await RunningServer(folder: first.folder)
        }
        #expect(isHeld())
        await first.stop()
        #expect(!isHeld(), "the control")
    }

    @Test("the secret beside the database is found through a link")
    func secret() throws {
        let folder = TemporaryFolder()
        try Data().write(to: URL(filePath: folder.database))
        let made = try LocalSecret.readOrMake(besideDatabase: folder.database, world: .live)
        let found = try LocalSecret.readOrMake(
            besideDatabase: try Name.symbolicLink.make(for: folder), world: .live)
        #expect(made.isNew && !found.isNew)
    }
}
