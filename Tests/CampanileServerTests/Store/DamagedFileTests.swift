import CampanileCore
import Foundation
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

/// A file whose rows hold what the schema forbids, as after a block of the disk that came back as zeros.
@Suite(.aboutTheFile) struct DamagedFileTests {
    private static let token = "a-token-for-the-metrics"
    private static let remedy = "The database is damaged: stop the server and restore a backup with `campanile restore`."

    /// The payload of the row in which a text stands, in the first page of a table or an index.
    private struct Place {
        let bytes: Range<Int>

        /// - Parameter page: of a leaf (https://www.sqlite.org/fileformat2.html, section 1.6).
        init(of text: String, in table: String, _ path: String) throws {
            let (root, size) = try Database.read(path: path) { connection in
                let root = try connection.first("SELECT rootpage FROM sqlite_schema WHERE name = $1", table) { Int($0.int(0)) }
                return (try #require(root), try #require(try connection.first("PRAGMA page_size") { Int($0.int(0)) }))
            }
            let file = try Data(contentsOf: URL(filePath: path))
            let page = (root - 1) * size
            let text = try #require(file.range(of: Data(text.utf8), in: page..<page + size), "the text isn't in the first page")
            let count = Int(file[page + 3]) << 8 | Int(file[page + 4])
            let cells = (0..<count).map { page + Int(file[page + 8 + 2 * $0]) << 8 | Int(file[page + 9 + 2 * $0]) }
            var start = try #require(cells.filter { $0 < text.lowerBound }.max())
            func number() -> Int {
                var value = 0
                while true {
                    value = value << 7 | Int(file[start] & 0x7f)
                    start += 1
                    if file[start - 1] < 0x80 { return value }
                }
            }
            let length = number()
            _ = number()
            bytes = start..<start + length
        }

        /// - Returns: what stood there.
        func write(_ new: Data?, _ path: String) throws -> Data {
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.seek(toOffset: UInt64(bytes.lowerBound))
            let old = try #require(try file.read(upToCount: bytes.count))
            try file.seek(toOffset: UInt64(bytes.lowerBound))
            try file.write(contentsOf: new ?? Data(count: bytes.count))
            try file.close()
            return old
        }
    }

    /// A file with two users, of whom alice has a row of zeros in a table, and what stood there.
    /// - Parameter text: it begins alice's row.
    private func damaged(_ table: String, _ text: String) async throws -> (folder: TemporaryFolder, place: Place, row: Data) {
        let server = try await RunningServer()
        for (user, letter) in [("alice", "a"), ("bob", "b")] {
            let body = #"{"token":"\#(String(repeating: letter, count: 64))","platform":"ios"}"#
            #expect(try await server.client.post("/device_tokens", body, as: try await server.user(user)).status == 201)
        }
        await server.stop()
        let path = server.folder.database
        let place = try Place(of: text, in: table, path)
        return (server.folder, place, try place.write(nil, path))
    }

    @Test("one damaged row fails the calls that meet it, makes the server unready, is logged once, and leaves all else as it is")
    func row() async throws {
        let (folder, place, row) = try await damaged("device_tokens", "defaultaaaa")
        let log = KeptLog()
        let server = try await RunningServer(folder: folder, logger: log.logger) { $0.metrics.token = Secret(Self.token) }
        let (alice, bob) = (try await server.user("alice"), try await server.user("bob"))
        #expect(try await server.client.get("/readyz").status == 200, "nothing has met it")
        for _ in 1...3 {
            let answer = try await server.client.get("/device_tokens", as: alice)
            #expect(answer.status == 500 && answer.code == "internal_error")
            #expect(try await server.client.get("/device_tokens", as: bob).status == 200)
        }
        #expect(log.count("error \(Self.remedy)") == 1)
        #expect(log.count("error") == 1, "\(log.lines)")
        let unready = try await server.client.get("/readyz", as: "Bearer \(Self.token)")
        #expect(unready.status == 503)
        let reasons = try unready.json["reasons"]?.array.compactMap(\.string)
        #expect(reasons == ["\(Self.remedy) Found: column 0 is NULL."])
        // Others go on.
        #expect(try await server.client.send("DELETE", "/badge", as: bob).status == 200)
        // A look that finds it again leaves it so, one that finds the file sound doesn't.
        server.clock.advance(seconds: 601)
        try await lookUntil {
            let answer = try await server.client.get("/readyz")
            return answer.status == 200 || log.count("error") > 1
        }
        #expect(log.count("error") == 2 && log.lines.contains { $0.contains("NULL value in device_tokens") }, "\(log.lines)")
        _ = try place.write(row, folder.database)
        server.clock.advance(seconds: 601)
        try await lookUntil { try await server.client.get("/readyz").status == 200 }
        #expect(try await server.client.get("/device_tokens", as: alice).status == 200)
        await server.stop()
    }

    @Test("the recount, the audit and the doctor go past it and name it")
    func recount() async throws {
        let (folder, _, _) = try await damaged("inboxes", "defaultalice")
        var configuration = Configuration()
        configuration.database = folder.database
        let operations = try OperatorCommands(configuration, world: .live)
        let audit = try operations.auditBadges { _, _ in }
        #expect(audit.inboxes == 2 && audit.differences.isEmpty && !audit.isGood)
        #expect(audit.unreadable.map(\.inbox) == ["inbox 1"])
        #expect(audit.summary == "2 inboxes, 0 wrong. 1 can't be read. \(Self.remedy)")
        let log = KeptLog()
        operations.database.damage.onFinding { log.keep("\($1 ?? "nowhere") \($0.message)") }
        let drift = BadgeDrift(database: operations.database, logger: log.logger)
        for _ in 1...2 { try drift.recountSome() }
        #expect(drift.counts == (4, 0))
        #expect(log.lines == ["inbox 1 column 0 is NULL"])
        operations.close()
        let findings = await Doctor(configuration, world: .live, logger: log.logger).examine()
        let said = findings.filter { !$0.isGood }.map { "\($0.subject): \($0.sentence)" }
        #expect(
            said == [
                "database: Not every badge equals its recount: \(audit.summary) See `campanile badge audit`.",
                "database: inbox 1 can't be read: column 0 is NULL.",
            ])
    }

    @Test("ids, words and numbers that the program never wrote are damage", arguments: ["id", "word", "number", "array"])
    func values(_ kind: String) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        // As the engine's own connections can't be made to, SQL can.
        try await fixture.database.write { transaction in
            let connection = transaction.connection
            switch kind {
            case "id": _ = try connection.run("UPDATE deliveries SET id = x'01'")
            case "word": _ = try connection.run("UPDATE device_tokens SET platform = 'toaster'")
            case "number": _ = try connection.run("UPDATE inboxes SET version = 9223372036854775807")
            default:
                _ = try connection.run(
                    """
                    INSERT INTO large_calls (app, user_ids, title, body, push) VALUES ('default', '{', 'T', '', 1)
                    """)
            }
        }
        let error = #expect(throws: SQLError.self) {
            switch kind {
            case "id": try fixture.store.readBlocking { _ = try $0.deliveries.list(notification: id) }
            case "word": try fixture.store.readBlocking { _ = try $0.deviceTokens.list(inbox: 1) }
            case "number": try fixture.store.readBlocking { _ = try $0.inboxes.state(1) }
            default: try fixture.store.readBlocking { _ = try $0.largeCalls.unfinished() }
            }
        }
        #expect(error?.isDamage == true)
        #expect(fixture.store.damage.first == error)
    }

    @Test("a start on a file whose schema can't be read says what to do")
    func start() async throws {
        let server = try await RunningServer()
        await server.stop()
        let file = try FileHandle(forUpdating: URL(filePath: server.folder.database))
        // The file's header stays (https://www.sqlite.org/fileformat2.html, section 1.3).
        try file.seek(toOffset: 100)
        try file.write(contentsOf: Data(count: 4_096))
        try file.close()
        let error = await #expect(throws: OperatorError.self) { try await RunningServer(folder: server.folder) }
        let sentence = "The database \(server.folder.database) can't be used: database disk image is malformed. \(Self.remedy)"
        #expect(error?.description == sentence)
    }
}
