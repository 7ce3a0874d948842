import CampanileCore
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Housekeeping") struct HousekeepingTests {
    @Test("settled deliveries go at the set age of their notification, those that are owed stay, however many there are")
    func deliveries() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        var ids: [UUIDv7] = []
        for number in 0..<(Limits.purgedRowsPerTransaction * 2 + 10) {
            if number == Limits.purgedRowsPerTransaction + 50 { fixture.clock.advance(seconds: 60) }
            ids.append(try await fixture.create())
        }
        try await fixture.database.write { [ids] transaction in
            for (index, id) in ids.enumerated() where index % 3 > 0 {
                try DeliveryRepository.settle(notification: id, device: 1, .accepted, answer: nil, in: transaction)
            }
        }
        func left() throws -> [UUIDv7] {
            try fixture.database.read {
                try $0.all("SELECT notification_id FROM deliveries ORDER BY notification_id") { $0.id(0) }
            }
        }
        var settings = Configuration.Retention()
        settings.deliveriesMilliseconds = 3_600_000
        let housekeeping = Housekeeping(
            database: fixture.database, settings: settings, world: fixture.world, logger: Logger(label: "test"), pause: .zero)
        fixture.clock.advance(seconds: 3_600 - 60)
        try await housekeeping.tidyUp()
        #expect(try left() == ids)
        fixture.clock.advance(seconds: 60)
        try await housekeeping.tidyUp()
        let old = Limits.purgedRowsPerTransaction + 50
        #expect(try left() == ids.enumerated().filter { $0.offset >= old || $0.offset % 3 == 0 }.map(\.element))
    }
}
