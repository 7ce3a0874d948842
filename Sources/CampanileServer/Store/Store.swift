package import CampanileCore
import SQLEngine
import Synchronization
import SystemSupport

/// Where everything is kept. A closure owns the repositories that it gets until it returns.
///
/// Reads of a file run at once on the calling thread; those of a database elsewhere suspend their callers. Writes wait for a writer's
/// thread, which commits them in groups.
package final class Store: Sendable {
    enum Base: Sendable {
        case sqlite(Database)
        case postgres(PostgresDatabase<PostgresStoreUnit>)
    }

    let base: Base
    let damage = Damage()
    /// In a structure, for the reason that `WakeSignal` gives.
    private struct UnknownCommits {
        var tell: (@Sendable () -> Void)?
    }

    private let unknownCommits = Mutex(UnknownCommits())

    init(_ database: Database) { base = .sqlite(database) }
    init(_ database: PostgresDatabase<PostgresStoreUnit>) { base = .postgres(database) }

    /// The SQLite file; nil on PostgreSQL.
    var file: DatabaseFile? {
        guard case .sqlite(let database) = base else { return nil }
        return database.file
    }

    /// Makes a generator whose ids follow all that were ever given out by this database's programs.
    ///
    /// The ids in a file are of this machine. Those of other nodes, whose clocks may be wrong, one id alone follows.
    package func idGenerator(world: World) throws -> UUIDv7Generator {
        let isAlone = if case .sqlite = base { true } else { false }
        return UUIDv7Generator(
            startingAfter: try readBlocking { try $0.programState.idsReservedUntil() }, isAlone: isAlone,
            now: { world.now().milliseconds }, random: world.random)
    }

    /// The reads that a hub may have under way at once: those of a file are over when they return, of the others as many as leave the
    /// pool to requests.
    var hubReads: Int {
        if case .sqlite = base { 1 } else { Limits.hubReads }
    }

    /// True where whoever revokes has this machine's clock. Then revocations are asked for by their time, and else by the users.
    var revocationsHaveOneClock: Bool {
        if case .sqlite = base { true } else { false }
    }

    /// The entries that an import writes in one transaction beside a server: beside nodes no more than it will lock.
    var importedBesideServer: Int {
        if case .sqlite = base { .max } else { Limits.importedBesideNodes }
    }

    /// The bytes of the database, and of the log beside it where that is a file of ours; nil: unknown.
    nonisolated(nonsending) func sizes() async -> (file: Int?, log: Int?) {
        switch base {
        case .sqlite(let database): Self.sizes(database)
        case .postgres(let database): (try? await database.read { try Self.size($0) }, nil)
        }
    }

    /// Finds the sizes for callers that may block their thread.
    func sizesBlocking() -> (file: Int?, log: Int?) {
        switch base {
        case .sqlite(let database): Self.sizes(database)
        case .postgres(let database): (try? database.readBlocking { try Self.size($0) }, nil)
        }
    }

    private static func sizes(_ database: Database) -> (file: Int?, log: Int?) {
        (File.size(database.file.path), File.size(database.file.path + "-wal"))
    }

    private static func size(_ connection: PostgresConnection) throws -> Int? {
        try connection.first("SELECT pg_database_size(current_database())") { Int($0.int(0)) }
    }

    /// Runs a read for one statement: each statement sees the state committed when it runs.
    ///
    /// - Throws: `body`'s error; `SQLError`, such as `closed`, when the database can't be read.
    nonisolated(nonsending)
        func read<T: Sendable>(_ body: @escaping @Sendable (StoreReading) throws -> T) async throws -> T
    {
        switch base {
        case .sqlite(let database): try damage.noting { try database.read { try body(.sqlite($0)) } }
        case .postgres(let database):
            try await damage.noting { try await database.read { try body(.postgres($0)) } }
        }
    }

    /// Runs several reads. All see the state committed when the first ran.
    nonisolated(nonsending)
        func snapshot<T: Sendable>(_ body: @escaping @Sendable (StoreReading) throws -> T) async throws -> T
    {
        switch base {
        case .sqlite(let database): try damage.noting { try database.snapshot { try body(.sqlite($0)) } }
        case .postgres(let database):
            try await damage.noting { try await database.snapshot { try body(.postgres($0)) } }
        }
    }

    /// Runs a read of a file on the calling thread.
    /// - Returns: nil where the database is elsewhere: `read` suspends there.
    func readAtOnce<T>(_ body: (StoreReading) throws -> T) throws -> T? {
        guard case .sqlite(let database) = base else { return nil }
        return try damage.noting { try database.read { try body(.sqlite($0)) } }
    }

    /// Runs several reads of a file, as `readAtOnce` does one. All see the state committed when the first ran.
    func snapshotAtOnce<T>(_ body: (StoreReading) throws -> T) throws -> T? {
        guard case .sqlite(let database) = base else { return nil }
        return try damage.noting { try database.snapshot { try body(.sqlite($0)) } }
    }

    /// As `snapshot`, for callers that don't suspend: the file's is done when this returns, on the calling thread.
    ///
    /// - Parameter deliver: called once, on any thread.
    func snapshot<T: Sendable>(
        _ body: @escaping @Sendable (StoreReading) throws -> T,
        then deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        switch base {
        case .sqlite(let database):
            deliver(Result { try damage.noting { try database.snapshot { try body(.sqlite($0)) } } })
        case .postgres(let database):
            database.snapshot({ try body(.postgres($0)) }) { [damage] result in
                if case .failure(let error) = result { damage.note(error) }
                deliver(result)
            }
        }
    }

    /// As `read`, for callers that may block their thread: command-line programs and tests.
    func readBlocking<T>(_ body: @escaping (StoreReading) throws -> T) throws -> T {
        try damage.noting {
            switch base {
            case .sqlite(let database): try database.read { try body(.sqlite($0)) }
            case .postgres(let database): try database.readBlocking { try body(.postgres($0)) }
            }
        }
    }

    /// As `snapshot`, for callers that may block their thread.
    func snapshotBlocking<T>(_ body: @escaping (StoreReading) throws -> T) throws -> T {
        try damage.noting {
            switch base {
            case .sqlite(let database): try database.snapshot { try body(.sqlite($0)) }
            case .postgres(let database): try database.snapshotBlocking { try body(.postgres($0)) }
            }
        }
    }

    /// Runs several reads that look at much, as `snapshotBlocking` does, but so that they push nothing out of the other readers' memory.
    /// On a thread of its own (`SystemThread.run`), or in a command-line program.
    func survey<T>(_ body: (StoreReading) throws -> T) throws -> T {
        try damage.noting {
            switch base {
            case .sqlite(let database): try database.survey { try body(.sqlite($0)) }
            case .postgres(let database): try database.survey { try body(.postgres($0)) }
            }
        }
    }

    /// Surveys each of several, each in a view of its own.
    func survey<Element, T>(each elements: [Element], _ body: (Element, StoreReading) throws -> T) throws -> [T] {
        try damage.noting {
            switch base {
            case .sqlite(let database): try database.survey(each: elements) { try body($0, .sqlite($1)) }
            case .postgres(let database): try database.survey(each: elements) { try body($0, .postgres($1)) }
            }
        }
    }

    /// Runs `body` in a transaction on a writer's thread and returns after its commit.
    ///
    /// Other writes may be in the same transaction, before and after. When one throws, only its own changes are undone. For that,
    /// `body` may run twice: it must change nothing but the store, and register other effects in its `StoreTransaction`. A
    /// submitted write runs even if the task that waits for it is cancelled.
    ///
    /// - Parameters:
    ///   - hints: what it will look at; see `StoreHint`.
    ///   - lane: whose it is. (A file has one writer for all.)
    /// - Throws: `body`'s error; `SQLError`: `queueFull`, `closed`, the commit's. Then nothing has changed.
    @discardableResult
    nonisolated(nonsending)
        func write<T: Sendable>(
            hints: [StoreHint] = [], lane: WriteLane = .requests, _ body: @escaping @Sendable (StoreTransaction) throws -> T
        ) async throws -> T
    {
        do {
            switch base {
            case .sqlite(let database): return try await database.write { try body(.sqlite($0)) }
            case .postgres(let database):
                return try await database.write(hints: hints, lane: lane.number(in: database)) { try body(.postgres($0)) }
            }
        } catch {
            if let error = error as? SQLError, error.code == .commitUnknown { unknownCommits.withLock { $0.tell }?() }
            damage.note(error)
            throw error
        }
    }

    /// Calls `tell` when a commit's answer was lost, so that nobody knows whether it happened. On PostgreSQL.
    func onUnknownCommit(_ tell: @escaping @Sendable () -> Void) { unknownCommits.withLock { $0.tell = tell } }

    /// Writes for callers that may block their thread: command-line programs and tests.
    @discardableResult
    func writeBlocking<T: Sendable>(_ body: @escaping @Sendable (StoreTransaction) throws -> T) throws -> T {
        try damage.noting {
            switch base {
            case .sqlite(let database): try database.writeBlocking { try body(.sqlite($0)) }
            case .postgres(let database): try database.writeBlocking { try body(.postgres($0)) }
            }
        }
    }

    /// Checks whether `body` could be written, without writing it. On PostgreSQL only a write shows that: its disk isn't ours.
    nonisolated(nonsending)
        func rehearse(_ body: @escaping @Sendable (StoreTransaction) throws -> Void) async throws
    {
        guard case .sqlite(let database) = base else { return }
        try await database.rehearse { try body(.sqlite($0)) }
    }

    /// Reads all of a file that may be damaged. PostgreSQL's files can't be read from here.
    /// - Throws: what is damaged.
    func requireSound() throws {
        guard case .sqlite(let database) = base else { return }
        try damage.noting {
            let finding = try database.survey { try $0.first("PRAGMA integrity_check(1)") { $0.text(0) } }
            guard finding == "ok" else { throw SQLError(code: .corrupt, message: finding) }
        }
    }

    /// Calls `watch` with the inboxes that a transaction's writes changed, after its commit and before their callers are
    /// answered, so that caches can forget them in time. On the writer's thread, which waits for it.
    func onCommit(_ watch: @escaping @Sendable (_ changed: [InboxID]) -> Void) {
        let watch: @Sendable ([Int64]) -> Void = { changes in watch(changes.map { InboxID($0) }) }
        switch base {
        case .sqlite(let database): database.onCommit(watch)
        case .postgres(let database): database.onCommit(watch)
        }
    }

    /// The writes that failed because the database couldn't be written: their number, and the reason of the last one.
    var refusals: Refusals {
        switch base {
        case .sqlite(let database): database.refusals
        case .postgres(let database): database.refusals
        }
    }

    /// The number of writes in the last transaction: a measure of how busy the writer is.
    var lastGroup: Int {
        switch base {
        case .sqlite(let database): database.lastGroup
        case .postgres(let database): database.lastGroup
        }
    }

    /// Histograms of the writer's work since the store was opened.
    var writerStatistics: WriterStatistics {
        switch base {
        case .sqlite(let database): database.writerStatistics
        case .postgres(let database): database.writerStatistics
        }
    }

    /// Writes that wait for a writer's thread now.
    var waitingWrites: Int {
        switch base {
        case .sqlite(let database): database.waitingWrites
        case .postgres(let database): database.waitingWrites
        }
    }

    /// Refuses new reads and writes, and runs the waiting writes. Running reads end normally. Idempotent.
    package func close() {
        switch base {
        case .sqlite(let database): database.close()
        case .postgres(let database): database.close()
        }
    }
}

/// Which writes share transactions and a connection to PostgreSQL. Those that lock in another order than requests do, or much, have
/// lanes of their own, in which each is a transaction.
enum WriteLane {
    case requests
    /// A node's beats, which must come in time.
    case beats
    case pushes
    /// Housekeeping, and what frees the pushes of a node that went.
    case upkeep

    func number<Unit>(in database: PostgresDatabase<Unit>) -> Int? {
        switch self {
        case .requests: nil
        case .beats: database.firstReservedLane
        case .pushes: database.firstReservedLane + 1
        case .upkeep: database.firstReservedLane + 2
        }
    }
}
