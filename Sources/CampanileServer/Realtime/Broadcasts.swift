import CampanileCore
import SQLEngine
import Synchronization

/// Takes what apps broadcast: it is kept, and everybody who listens gets it, on every node.
struct Broadcasts: Sendable {
    let database: Store
    let world: World
    let keeping: BroadcastKeeping
    let hub: BroadcastHub

    /// Adds broadcasts to an app's series, in order. One whose id is kept isn't added again.
    func add(_ broadcasts: [Broadcast], app: String) async throws {
        try await database.write(hints: [.broadcasts(app: app)]) { [hub, world, keeping] transaction in
            let added = try transaction.broadcasts.add(broadcasts, app: app, keeping) { Broadcasts.epoch(world) }
            guard added > 0 else { return }
            transaction.afterCommit {
                hub.counts.countTaken(added)
                hub.announce(ExactText(app))
            }
        }
    }

    /// Does the same for a sender that drops a message at any answer but success: the database may come back meanwhile. Each message goes
    /// once, however often it is tried.
    func addPatiently(_ broadcasts: [Broadcast], app: String) async throws {
        let named = broadcasts.map { $0.named("anycable-\(Hex.encode(world.randomBytes(16)))") }
        let (results, result) = AsyncStream.makeStream(of: Result<Void, any Error>.self)
        // A write can't be cancelled: what is still under way then may be stored all the same.
        let work = Task {
            do {
                result.yield(.success(try await addUntilTaken(named, app: app)))
            } catch { result.yield(.failure(error)) }
        }
        let limit = Task {
            try await Task.sleep(for: .milliseconds(Limits.anyCableWaitMilliseconds))
            result.yield(.failure(SQLError(code: .busy, message: "the database took too long")))
        }
        defer {
            work.cancel()
            limit.cancel()
        }
        for await first in results { return try first.get() }
        // The loop ends without a result only when its task was cancelled.
        throw CancellationError()
    }

    private func addUntilTaken(_ broadcasts: [Broadcast], app: String) async throws {
        while true {
            do {
                return try await add(broadcasts, app: app)
            } catch let error as SQLError where error.isUnavailable || error.code == .commitUnknown {
                try await Task.sleep(for: .milliseconds(Limits.anyCablePauseMilliseconds))
            }
        }
    }

    /// Where an app's series is now. It begins one if there is none.
    func position(of app: String) async throws -> BroadcastPosition {
        if let series = try await database.read({ try $0.broadcasts.series(of: app) }) { return series.position }
        return try await database.write(hints: [.broadcasts(app: app)]) { [world] transaction in
            try transaction.broadcasts.begin(app: app) { Broadcasts.epoch(world) }.position
        }
    }

    /// Names a new series.
    static func epoch(_ world: World) -> String { Hex.encode(world.randomBytes(8)) }
}

/// The broadcasts that this process took since its start, and the histories that clients asked for.
final class BroadcastCounts: Sendable {
    private let takenCount = Atomic<Int>(0)
    private let confirmed = Atomic<Int>(0)
    private let rejected = Atomic<Int>(0)

    var taken: Int { takenCount.load(ordering: .relaxed) }
    var histories: [(reply: HistoryReply, count: Int)] {
        [(.confirmed, confirmed.load(ordering: .relaxed)), (.rejected, rejected.load(ordering: .relaxed))]
    }

    func countTaken(_ count: Int) { takenCount.add(count, ordering: .relaxed) }
    func count(_ reply: HistoryReply) {
        switch reply {
        case .confirmed: confirmed.add(1, ordering: .relaxed)
        case .rejected: rejected.add(1, ordering: .relaxed)
        }
    }
}
