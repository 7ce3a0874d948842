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

// The database of a test that knows which of the two it is.

extension Store {
    var sqlite: Database {
        guard case .sqlite(let database) = base else { fatalError("the store is not a SQLite file") }
        return database
    }

    var cluster: ClusterDatabase {
        guard case .postgres(let database) = base else { fatalError("a SQLite file has no nodes") }
        return database
    }
}

extension App {
    var database: Database { store.sqlite }
}

// The repositories of a SQLite file that a test has opened itself.

extension Connection {
    var store: StoreReading { .sqlite(self) }
}

extension Transaction {
    var store: StoreTransaction { .sqlite(self) }
}
