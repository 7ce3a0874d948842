import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

/// The rules for an imported file: the API's own rules, all mistakes at once, and nothing written before they are mended.
@Suite("Rules of an import") struct ImportRulesTests {
    private static func notification(_ fields: String) -> String {
        #"{"user_id":"alice","title":"Title","created_at":"2026-01-01T00:00:00Z","external_id":"1""# + fields + "}"
    }

    @Test(
        "a notification is held to the rules of POST /notifications",
        arguments: [
            (#"{}"#, ["external_id is required.", "created_at is required.", "user_id is required.", "title is required."]),
            (notification(#","body":7"#), ["body must be a string."]),
            (notification(#","category":"""#), ["category must not be empty."]),
            (notification(#","data":[1]"#), ["data must be an object."]),
            (notification(#","data":{"aps":1}"#), ["data.aps is reserved."]),
            (notification(#","body":"a\u0000b""#), ["body must not contain NUL."]),
            (notification(#","read_at":"yesterday""#), ["read_at must be an RFC 3339 time, such as 2026-11-21T08:00:00Z."]),
            (notification(#","read_at":"2099-01-01T00:00:00Z""#), ["read_at must not be in the future, nor before 1970."]),
            (notification(#","push":true"#), ["“push” is not a column: "]),
            (notification(#","user_ids":["a"]"#), ["“user_ids” is not a column: "]),
        ] as [(String, [String])])
    func notifications(_ line: String, _ expected: [String]) async throws {
        let fixture = try Fixture()
        let report = try await fixture.importNotifications(line + "\n", named: "file.ndjson")
        #expect(report.mistakes.count == expected.count && report.mistakeCount == expected.count)
        for (mistake, sentence) in zip(report.mistakes, expected) {
            #expect(mistake.sentence.hasPrefix(sentence), "\(mistake)")
        }
        #expect(try fixture.importedCount() == 0)
    }

    @Test("what is a push's limit is none of an entry that isn't pushed")
    func large() async throws {
        let fixture = try Fixture()
        let data = String(repeating: "x", count: 1_900)
        let line = Self.notification(
            #","body":"\#(String(repeating: "y", count: 2_000))","deep_link":"\#(String(repeating: "z", count: 2_000))","data":{"a":"\#(data)"}"#
        )
        let report = try await fixture.importNotifications(line, named: "file.ndjson")
        #expect(report.mistakes == [] && report[.made] == 1)
    }

    @Test("what was created with an external id isn't imported, what was imported isn't created, and each keeps its external id")
    func externalIDs() async throws {
        let fixture = try Fixture()
        func create(_ userID: String, _ externalID: String) async throws -> UUIDv7 {
            var new = NewNotification(
                userIDs: [userID], content: NotificationContent(title: "T", body: "", category: nil, deepLink: nil, data: nil),
                push: .standard, isForMany: false)
            new.externalID = externalID
            let (answer, _) = try await fixture.publisher.publish(new, app: "default", once: nil)
            guard case .string(let id)? = try JSONValue(parsing: answer.body)["id"] else { throw Missing() }
            return try #require(UUIDv7(id))
        }
        func imported(_ externalID: String) async throws -> (made: Int, known: Int) {
            let line = #"{"user_id":"alice","title":"I","created_at":"2026-01-01T00:00:00Z","external_id":"\#(externalID)"}"#
            let report = try await fixture.importNotifications(line + "\n", named: "file.ndjson")
            return (report[.made], report[.known])
        }
        // Names are unique for an app in an import, and for each user in a call.
        _ = try await create("bob", "called")
        #expect(try await imported("called") == (0, 1))
        #expect(try await imported("brought") == (1, 0))
        let taken = await #expect(throws: ClientError.self) { _ = try await create("alice", "brought") }
        #expect(taken?.code == .externalIDTaken && taken?.notificationID != nil)
        let list = try fixture.store.readBlocking { reading in
            let inbox = try #require(try reading.inboxes.id(app: "default", userID: "alice"))
            return try taken?.notificationID.flatMap { try reading.notifications.find($0, inbox: inbox) }
        }
        #expect(list?.externalID == "brought" && list?.content.title == "I")
        // A program before schema 21 noted only the name.
        try await fixture.store.write { transaction in
            _ = try transaction.importedEntries.note(app: "default", externalID: "old")
        }
        let old = await #expect(throws: ClientError.self) { _ = try await create("alice", "old") }
        #expect(old?.code == .externalIDTaken && old?.notificationID == nil)
        #expect(try await imported("old") == (0, 1))
    }

    private struct Missing: Error {}

    @Test("a deep link that the tree doesn't know is told, and a category that isn't declared")
    func tree() async throws {
        let fixture = try Fixture()
        let rules = NotificationRules(
            deepLinks: DeepLinkTree([.init("home")]), categories: ["NOTICE": NotificationCategory()], categoriesOnly: true)
        let text = """
            user_id,title,deep_link,category,created_at,external_id
            alice,Title,home,NOTICE,2026-01-01T00:00:00Z,1
            alice,Title,hone,NOTICE,2026-01-01T00:00:00Z,2
            alice,Title,home,NOTIZ,2026-01-01T00:00:00Z,3

            """
        let report = try await fixture.importNotifications(text, rules: rules)
        #expect(report.mistakes.map(\.line) == [3, 4])
        #expect(report.mistakes.first?.sentence.hasPrefix("deep_link ") == true)
        #expect(report.mistakes.last?.sentence.hasPrefix("category must be a declared one") == true)
        #expect(try fixture.titles() == [])
    }

    @Test("data in CSV is JSON")
    func data() async throws {
        let fixture = try Fixture()
        let text = """
            user_id,title,data,created_at,external_id
            alice,Title,"{""order"":42}",2026-01-01T00:00:00Z,1

            """
        #expect(try await fixture.importNotifications(text)[.made] == 1)
        let data = try fixture.database.read { try $0.first("SELECT data FROM notifications") { $0.text(0) } }
        #expect(data == #"{"order":42}"#)
        let broken = text.replacing(#"{""order"":42}"#, with: "{order")
        #expect(try await fixture.importNotifications(broken).mistakes.map(\.sentence) == ["data must be a JSON object."])
    }

    @Test("all mistakes are counted and a bounded number is told; nothing of the file is written")
    func bounded() async throws {
        let fixture = try Fixture()
        let good = Fixture.line("good", at: fixture.time(-1))
        let text = Fixture.header + good + String(repeating: ",,yesterday,,\n", count: 150) + good
        let report = try await fixture.importNotifications(text)
        #expect(report.records == 152 && report.faultyRecords == 150 && report.mistakeCount == 600)
        #expect(report.mistakes.count == Limits.printedMistakes)
        #expect(report.mistakes.first?.line == 3 && report.mistakes.last?.line == 27)
        #expect(try fixture.importedCount() == 0 && fixture.titles() == [])
    }

    @Test("a dry run writes nothing and says what would be done")
    func dryRun() async throws {
        let fixture = try Fixture()
        let text = Fixture.header + Fixture.line("1", at: fixture.time(-1))
        _ = try await fixture.importNotifications(text)
        let contents = try fixture.contents()
        let report = try await fixture.importNotifications(text + Fixture.line("2", at: fixture.time(-1)), isDryRun: true)
        #expect(report[.made] == 1 && report[.known] == 1 && report.records == 2)
        #expect(try fixture.contents() == contents)
    }

    @Test("a file that shrinks while it is read is told")
    func shrunk() throws {
        let file = try SourceFile("a,b\n1,2\n")
        let opened = try file.open()
        _ = truncate(file.path, 5)
        #expect(throws: OperatorError.self) {
            var reader = try RecordReader(opened, columns: ["a", "b"], required: [])
            while try reader.next() != nil {}
        }
    }
}
