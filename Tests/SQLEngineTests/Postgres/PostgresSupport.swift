import SQLEngine
import SystemSupport
import TestSupport
import Testing

/// A database of its own on the tests' server, with the table `cells (id, value)`, whose rows 1 to 20 begin at 0.
struct PostgresFixture {
    let text: String
    let address: PostgresAddress
    let database: PostgresDatabase<Cells>

    init(on server: PostgresServer? = nil, tcp: Bool = false, _ change: (inout PostgresOptions) -> Void = { _ in }) throws {
        let server = try server ?? PostgresServer.shared.get()
        text = try server.makeDatabase()
        address = try PostgresAddress(text)
        var options = Self.options
        change(&options)
        try PostgresMigrator(migrations: [Self.schema]).migrate(address)
        database = try PostgresDatabase(address, options: options)
    }

    private static var options: PostgresOptions {
        var options = PostgresOptions()
        // Groups are seen best in one lane.
        options.lanes = 1
        // Who stands at a gate may stand there for long while the machine is busy, and must keep what it has locked; who waits for it
        // must have it in the end.
        options.idleInTransactionTimeoutMilliseconds = 600_000
        options.lockTimeoutMilliseconds = 600_000
        options.statementTimeoutMilliseconds = 600_000
        options.readTimeoutMilliseconds = 600_000
        return options
    }

    static let schema = Migration(
        version: 1, name: "cells",
        sql: """
            CREATE TABLE cells (id bigint PRIMARY KEY, value bigint NOT NULL CHECK (value < 1000000));
            CREATE TABLE names (name text PRIMARY KEY, cell bigint REFERENCES cells DEFERRABLE INITIALLY DEFERRED);
            INSERT INTO cells SELECT n, 0 FROM generate_series(1, 20) n;
            """)

    func value(_ id: Int64) throws -> Int64 {
        try database.readBlocking { try $0.first("SELECT value FROM cells WHERE id = $1", id) { $0.int(0) } } ?? -1
    }

    /// A session beside the database's own.
    func session(_ change: (inout PostgresOptions) -> Void = { _ in }) throws -> PostgresDatabase<Cells> {
        var options = Self.options
        options.readConnections = 1
        change(&options)
        return try PostgresDatabase(address, options: options)
    }
}

/// A unit that locks cells, adds to them in memory, and writes them with one statement.
final class Cells: PostgresUnit {
    let transaction: PostgresTransaction
    private(set) var values: [Int64: Int64] = [:]
    private var touched: Set<Int64> = []
    private(set) var changes = 0

    init(_ transaction: PostgresTransaction) { self.transaction = transaction }

    var connection: PostgresConnection { transaction.connection }

    func prepare(for hints: [Int64]) throws {
        guard !hints.isEmpty else { return }
        try connection.forEach(
            "SELECT id, value FROM cells WHERE id = ANY($1) ORDER BY id FOR UPDATE", PostgresArray(hints)
        ) { values[$0.int(0)] = $0.int(1) }
    }

    func add(_ amount: Int64, to id: Int64) {
        values[id, default: 0] += amount
        touched.insert(id)
        changes += 1
    }

    func flush() throws {
        guard !touched.isEmpty else { return }
        let ids = touched.sorted()
        try connection.queue(
            "UPDATE cells SET value = u.value FROM unnest($1, $2) AS u (id, value) WHERE cells.id = u.id",
            PostgresArray(ids), PostgresArray(ids.map { values[$0] ?? 0 }))
    }

    func forget() {
        values = [:]
        touched = []
    }
}

/// Submits writes in the given order to one lane, behind one that stands at a gate until all are there: so they are one group.
/// - Parameter hints: of each of them; none where there are fewer.
/// - Returns: what went wrong with each of them, in order.
func runPostgresGroup(
    _ database: PostgresDatabase<Cells>, hints: [[Cells.Hint]] = [], _ bodies: [@Sendable (Cells) throws -> Void]
) async -> [SQLError?] {
    let gate = Gate()
    let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
    let first = Task {
        try await database.write(lane: 0) { _ in
            continuation.finish()
            gate.stand()
        }
    }
    for await _ in entered {}
    var tasks: [Task<Void, any Error>] = []
    for (index, body) in bodies.enumerated() {
        let waiting = database.waitingWrites
        let own = index < hints.count ? hints[index] : []
        // It has submitted its write when it first waits.
        tasks.append(Task.immediate { try await database.write(hints: own, lane: 0, body) })
        #expect(database.waitingWrites > waiting)
    }
    gate.open()
    _ = await first.result
    return await failures(tasks)
}

/// The error that `body` throws.
func sqlError<T>(_ body: () throws -> T) -> SQLError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? SQLError
    }
}
