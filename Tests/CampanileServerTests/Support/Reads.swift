import CampanileCore
import SQLEngine

@testable import CampanileServer

// Reads as tests make them: they may block their thread.

extension Inboxes {
    func badge(_ user: User) throws -> Badge {
        try badgeAtOnce(user) ?? database.readBlocking { try badge(user, in: $0) }
    }

    func notification(_ id: UUIDv7, _ user: User) throws -> Notification {
        try database.readBlocking { try notification(id, user, in: $0) }
    }
}

extension DeviceRegistry {
    func list(_ user: User) throws -> [DeviceToken] { try database.readBlocking { try list(user, in: $0) } }
}

extension Explanation {
    init?(_ id: UUIDv7, app: String?, _ database: Store) throws {
        guard let found = try database.snapshotBlocking({ try Explanation(id, app: app, in: $0) }) else { return nil }
        self = found
    }
}

// The repositories of a SQLite file that a test has opened itself.

extension Connection {
    var store: StoreReading { .sqlite(self) }
}

extension Transaction {
    var store: StoreTransaction { .sqlite(self) }
}
