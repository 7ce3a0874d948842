import Synchronization
import SystemSupport

/// One PostgreSQL database: a bounded number of readers, and lanes that write.
///
/// A closure owns the connection or the unit that it gets until it returns. Reads run on threads of their own; see `PostgresReaders`.
/// Writes wait for a lane, which commits them in groups; see `PostgresLane`.
package final class PostgresDatabase<Unit: PostgresUnit>: Sendable {
    package let address: PostgresAddress
    package let options: PostgresOptions
    /// The server's version when the database was opened, as 150004 for 15.4.
    package let serverVersion: Int
    /// The `synchronous_commit` of the session that opened the database, `on` or `remote_apply`: what commits waited for then.
    package let synchronousCommit: String
    private let readers: PostgresReaders
    private let lanes: [PostgresLane<Unit>]
    /// The first of three lanes that no write gets but those that ask for one: for what must not wait behind others, or keep them
    /// waiting. Each write in them is a transaction.
    package let firstReservedLane: Int
    private static var reservedLanes: Int { 3 }
    private let watch: PostgresWatch
    private let turn = Atomic<UInt>(0)

    /// Connects once, to see whether the server can be used.
    ///
    /// - Throws: `SQLError`: `cantOpen`, never with the password; see `PostgresConnection`.
    package init(_ address: PostgresAddress, options: PostgresOptions = .init()) throws {
        self.address = address
        self.options = options
        let connection = try PostgresConnection(address, options: options, for: .write)
        serverVersion = connection.serverVersion
        synchronousCommit = connection.synchronousCommit
        connection.close()
        readers = try PostgresReaders(address, options: options)
        let watch = PostgresWatch(overdue: PostgresOverdue(limit: options.overdueCommits))
        self.watch = watch
        let shared = max(1, options.lanes)
        var alone = options
        alone.laneBatchLimit = 1
        // How many rows a purge looks at decides how.
        alone.plansOnce = false
        firstReservedLane = shared
        lanes = try (1...shared + Self.reservedLanes).map { number in
            try PostgresLane(address, options: number > shared ? alone : options, watch: watch, number: number)
        }
    }

    deinit {
        close()
    }

    /// Runs a read on one of the readers' threads, and suspends meanwhile. For one statement: each statement sees the state committed
    /// when it runs. `body` runs again, on another connection, if the first had died before it got any answer.
    ///
    /// - Throws: `body`'s error; `closed`; `busy` when there is no answer in time (`PostgresOptions.readTimeoutMilliseconds`);
    ///   `cantOpen`; `connectionLost`.
    nonisolated(nonsending)
        package func read<T: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> T) async throws -> T
    {
        try await withUnsafeThrowingContinuation { continuation in read(body) { continuation.resume(with: $0) } }
    }

    /// Runs a read as `read(_:)` does, for callers that don't suspend. Never waits.
    ///
    /// - Parameter deliver: called once, on any thread.
    package func read<T: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection) throws -> T,
        then deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        readers.submit(PostgresQuery(within: readers.patience, body, deliver: deliver))
    }

    /// Runs several reads as `read` does. All see the state committed when the first ran.
    nonisolated(nonsending)
        package func snapshot<T: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> T) async throws -> T
    {
        try await read { try Self.snapshot($0, body) }
    }

    /// Runs several reads as `snapshot(_:)` does, for callers that don't suspend. Never waits.
    package func snapshot<T: Sendable>(
        _ body: @escaping @Sendable (PostgresConnection) throws -> T,
        then deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        read({ try Self.snapshot($0, body) }, then: deliver)
    }

    private static func snapshot<T>(_ connection: PostgresConnection, _ body: (PostgresConnection) throws -> T) throws -> T {
        try connection.begin(.snapshot)
        let result = try body(connection)
        connection.endSnapshot()
        return result
    }

    /// As `read`, for callers that may block their thread: command-line programs and tests. A read that has a thread may take longer
    /// than others: as long as its statements may.
    package func readBlocking<T>(_ body: @escaping (PostgresConnection) throws -> T) throws -> T {
        let borrowed = Borrowed(body)
        defer { borrowed.body = nil }
        let caller = BlockedCaller<Void>()
        readers.submit(
            PostgresQuery(within: readers.patience, mayOverrun: true, { try borrowed.run($0) }) { caller.put($0) })
        try caller.wait()
        guard let result = borrowed.result else { misuse("a read without a result") }
        return result
    }

    /// The closure that a blocked caller lends to a reader's thread, and its result.
    ///
    /// Sendable because the caller waits until the thread is done with it.
    private final class Borrowed<T>: @unchecked Sendable {
        var body: ((PostgresConnection) throws -> T)?
        private(set) var result: T?

        init(_ body: @escaping (PostgresConnection) throws -> T) { self.body = body }

        func run(_ connection: PostgresConnection) throws { result = try body?(connection) }
    }

    /// As `snapshot`, for callers that may block their thread.
    package func snapshotBlocking<T>(_ body: @escaping (PostgresConnection) throws -> T) throws -> T {
        try readBlocking { try Self.snapshot($0, body) }
    }

    /// Runs several reads that look at much on the calling thread, which waits: on a connection of their own and with more time. Few do at the
    /// same time (`PostgresOptions.surveys`); the others wait. Not within another survey.
    package func survey<T>(_ body: (PostgresConnection) throws -> T) throws -> T {
        try survey(each: [()]) { _, connection in try body(connection) }[0]
    }

    /// Runs `body` for each of several elements, as `survey(_:)` does once: on one connection, and each in a view of its own.
    package func survey<Element, T>(each elements: [Element], _ body: (Element, PostgresConnection) throws -> T) throws -> [T] {
        try readers.withSurvey { connection in
            try elements.map { element in
                try connection.begin(.snapshot)
                defer { connection.rollback() }
                return try body(element, connection)
            }
        }
    }

    /// Runs `body` in a transaction on a lane's thread and returns after its commit.
    ///
    /// Other writes may be in the same transaction, before and after. When one throws, only its own changes are undone. For that,
    /// and when the transaction meets others or the connection is lost, `body` runs again: it must change nothing but the
    /// database through its unit, and register other effects in its `PostgresTransaction`. It may read another write that isn't
    /// committed yet; the two commit together or not at all. A submitted write runs even if the task that waits for it is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - hints: what it works on: `PostgresUnit.prepare` gets them. Writes with the same first hint run in order.
    ///   - lane: from 0; nil for the lane of the first hint, or the next one in turn.
    /// - Throws: `body`'s error; `queueFull`; `closed`; `connectionLost`, `serialization` and others of `SQLError`: then nothing
    ///   has changed. `commitUnknown`: then nobody knows.
    @discardableResult
    nonisolated(nonsending)
        package func write<T: Sendable>(
            hints: [Unit.Hint] = [], lane: Int? = nil, _ body: @escaping @Sendable (Unit) throws -> T
        ) async throws -> T
    {
        let chosen = choose(hints, lane)
        return try await withUnsafeThrowingContinuation { continuation in
            chosen.submit(PostgresWrite(hints, body) { continuation.resume(with: $0) })
        }
    }

    /// Writes as `write` does, for callers that may block their thread: command-line programs and tests.
    @discardableResult
    package func writeBlocking<T: Sendable>(
        hints: [Unit.Hint] = [], lane: Int? = nil, _ body: @escaping @Sendable (Unit) throws -> T
    ) throws -> T {
        if lanes.contains(where: \.isCurrentThread) { misuse("a write waits for a lane inside a write") }
        let caller = BlockedCaller<T>()
        choose(hints, lane).submit(PostgresWrite(hints, body) { caller.put($0) })
        return try caller.wait()
    }

    private func choose(_ hints: [Unit.Hint], _ lane: Int?) -> PostgresLane<Unit> {
        if let lane { return lanes[lane % lanes.count] }
        let number = hints.first.map { UInt(bitPattern: $0.hashValue) } ?? turn.wrappingAdd(1, ordering: .relaxed).newValue
        return lanes[Int(number % UInt(firstReservedLane))]
    }

    /// Calls `watch` with the rows that a transaction's writes changed (`PostgresTransaction.changed`), after its commit and
    /// before their callers are answered. On the lanes' threads, of which several may call it at the same time.
    package func onCommit(_ watcher: @escaping @Sendable (_ changes: [Int64]) -> Void) {
        watch.watchCommits(watcher)
    }

    /// Refuses new reads and those that wait, and runs the waiting writes. Running reads end normally. Idempotent.
    package func close() {
        readers.close()
        for lane in lanes { lane.refuse() }
        for lane in lanes { lane.close() }
        watch.overdue.close()
        // It may hold the database.
        watch.watchCommits(nil)
    }

    /// The writes that failed because the database couldn't be written: their number, and the reason of the last one.
    package var refusals: Refusals { watch.refusals }

    /// The number of writes in a lane's last transaction.
    package var lastGroup: Int { watch.groupSize }

    /// Writes that wait for a lane now; see `PostgresOptions.laneQueueLimit`.
    package var waitingWrites: Int { lanes.reduce(0) { $0 + $1.waiting } }

    /// Histograms of the lanes' work since the database was opened. A hold is the time from a transaction's begin to its commit.
    package var writerStatistics: WriterStatistics {
        func sum(_ histogram: (PostgresLane<Unit>) -> Histogram) -> HistogramReading {
            var result = histogram(lanes[0]).reading
            for lane in lanes.dropFirst() { result.add(histogram(lane).reading) }
            return result
        }
        return WriterStatistics(
            groupSizes: sum(\.groupSizes), commitNanoseconds: sum(\.commitTimes), holdNanoseconds: sum(\.holdTimes))
    }
}
