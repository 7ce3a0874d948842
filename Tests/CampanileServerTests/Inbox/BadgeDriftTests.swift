import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

@Suite struct BadgeDriftTests {
    @Test("it recounts a part of the inboxes at a time, round after round, and counts and logs what is wrong")
    func rounds() async throws {
        let fixture = try Fixture()
        for name in ["a", "b", "c"] { try await fixture.create(User(app: "default", userID: name)) }
        let log = KeptLog()
        let drift = BadgeDrift(database: fixture.store, logger: log.logger)
        try drift.recountSome(2)
        try drift.recountSome(2)
        #expect(drift.counts == (3, 0))
        try await fixture.database.write { transaction in
            _ = try transaction.connection.run("UPDATE inboxes SET unread_count = 7 WHERE user_id = 'b'")
        }
        try drift.recountSome(1)
        #expect(drift.counts == (4, 0) && log.count("error") == 0)
        try drift.recountSome(1)
        #expect(drift.counts == (5, 1))
        #expect(log.count("error Badges differ from their recount: see `campanile badge audit`.") == 1)
        try drift.recountSome(10)
        #expect(drift.counts == (6, 1))
        try drift.recountSome(10)
        #expect(drift.counts == (9, 2), "what stays wrong counts in every round")
    }
}
