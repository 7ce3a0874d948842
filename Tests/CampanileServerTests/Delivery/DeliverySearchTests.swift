import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// How operators find deliveries.
@Suite struct DeliverySearchTests {
    private static let shop = User(app: "shop", userID: "bob")

    private static func page(_ fixture: Fixture, _ filter: DeliveryFilter) async throws -> DeliverySearch.Page {
        try await DeliverySearch(database: fixture.store).page(filter)
    }

    /// Every page, to the end.
    static func all(_ fixture: Fixture, _ filter: DeliveryFilter) async throws -> (found: [OperatedDelivery], pages: Int) {
        var (filter, found, pages) = (filter, [OperatedDelivery](), 0)
        while true {
            let page = try await page(fixture, filter)
            found += page.deliveries
            pages += 1
            guard let next = page.next else { return (found, pages) }
            #expect(next.notification < filter.before.notification || next.device < filter.before.device)
            filter.before = next
        }
    }

    /// Rows as many notifications with one device each would have left them: every `rare`th was refused.
    private static func fill(_ fixture: Fixture, _ count: Int, rare: Int) async throws {
        try await fixture.register("a")
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                """
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, settled_at, answers)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                SELECT CAST(printf('%016d', i) AS BLOB), 1, CAST(printf('%016d', i) AS BLOB), 1,
                    iif(i % \(rare), 'accepted', 'rejected'), 1, i, iif(i % \(rare), NULL, '[{"reason":"BadTopic"}]') FROM n;
                """)
        }
    }

    @Test("all are listed newest first, a page at a time, each once, with its user")
    func pages() async throws {
        let fixture = try Fixture()
        for device in ["a", "b", "c"] as [Character] { try await fixture.register(device) }
        try await fixture.register("d", Self.shop)
        var created: [UUIDv7] = []
        for _ in 0..<40 {
            created.append(try await fixture.create())
            try await fixture.create(Self.shop)
        }
        let (found, pages) = try await Self.all(fixture, DeliveryFilter(app: "default"))
        #expect(found.map(\.notificationID) == created.reversed().flatMap { [$0, $0, $0] })
        #expect(Set(found.map(\.report.id)).count == 120 && Set(found.map(\.userID)) == ["alice"])
        #expect(pages == 3)
        #expect(try await Self.all(fixture, DeliveryFilter(app: "blog")).found.isEmpty)
    }

    @Test("states, reasons of ours and words of the provider's last answer choose")
    func filters() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create(push: false)
        let refused = PushAnswer(outcome: .rejected, status: 400, reason: "PayloadEmpty")
        fixture.provider.answer { _ in refused }
        let rejected = try await fixture.create()
        _ = try await fixture.sent()
        fixture.provider.answer { _ in .accepted }
        let accepted = try await fixture.create()
        _ = try await fixture.sent()
        let nobody = try await fixture.create(User(app: "default", userID: "carol"))
        func found(_ change: (inout DeliveryFilter) -> Void) async throws -> [UUIDv7] {
            var filter = DeliveryFilter(app: "default")
            change(&filter)
            return try await Self.page(fixture, filter).deliveries.map(\.notificationID)
        }
        #expect(try await found { $0.state = "rejected" } == [rejected])
        #expect(try await found { $0.state = "accepted" } == [accepted])
        #expect(try await found { $0.reason = "PayloadEmpty" } == [rejected])
        #expect(try await found { ($0.state, $0.reason) = ("rejected", "PayloadEmpty") } == [rejected])
        #expect(try await found { ($0.state, $0.reason) = ("rejected", "BadTopic") } == [])
        #expect(try await found { $0.reason = "no_devices" } == [nobody])
        #expect(try await found { $0.state = DeliveryFilter.nothingOwed }.count == 2)
        #expect(try await found { $0.state = "superseded" } == [], "where nothing was owed, nothing was superseded")
        #expect(try await found { $0.notification = accepted } == [accepted])
        #expect(try await found { ($0.notification, $0.state) = (accepted, "rejected") } == [])
    }

    @Test("what is rare among many is found at once by its state, and otherwise a bounded number at a time")
    func bounded() async throws {
        let fixture = try Fixture()
        let count = Limits.searchedDeliveries * 2 + 100
        try await Self.fill(fixture, count, rare: count)
        var filter = DeliveryFilter(app: "default")
        filter.state = "rejected"
        #expect(try await Self.all(fixture, filter).pages == 1, "the index has nothing else")
        filter.state = nil
        filter.reason = "BadTopic"
        let (found, pages) = try await Self.all(fixture, filter)
        #expect(found.count == 1 && pages == 3, "no index knows a reason")
        filter.reason = "nobody's"
        let empty = try await Self.page(fixture, filter)
        #expect(empty.deliveries.isEmpty && empty.next != nil, "short, and there is more")
    }

    @Test("the states that the index has are those that the program looks for with it")
    func index() async throws {
        let fixture = try Fixture()
        try await Self.fill(fixture, 10, rare: 5)
        let sql = try await fixture.database.write {
            try $0.connection.first("SELECT sql FROM sqlite_schema WHERE name = 'deliveries_unsuccessful'") { $0.text(0) }
        }
        let named = (sql ?? "").matches(of: /state = '([a-z]+)'/).map { String($0.1) }
        #expect(Set(named) == Set(DeliveryState.unsuccessful.map(\.rawValue)))
    }
}
