import CampanileCore
import Synchronization
import SystemSupport

/// The alerts that wait in the database, lane by lane: how many, and since when the oldest. Counted when somebody asks, beside
/// the server's work.
final class OwedAlerts: Sendable {
    /// Of one lane.
    struct Tally: Sendable, Equatable {
        var count: Int64 = 0
        /// When the notification of the oldest was created.
        var oldest = Timestamp(milliseconds: .max)
    }

    private struct Look: Sendable {
        let task: Task<[Lane: Tally], any Error>
        /// By the monotonic clock; nil while it isn't over.
        var endsAt: Int64?
    }

    /// Nanoseconds for which a count serves, and how many times as long as it took: so counting takes 2 % of the time at most.
    private static let life: Int64 = 2_000_000_000
    private static let rest: Int64 = 50
    /// Devices that are looked at in one view of the database.
    private static let devices: Int64 = 5_000

    private let database: Store
    private let world: World
    private let look = Mutex<Look?>(nil)

    init(database: Store, world: World) {
        self.database = database
        self.world = world
    }

    /// The lanes that anything is owed in, counted now or a moment ago. Callers that come together share a count.
    func byLane() async throws -> [Lane: Tally] {
        try await current().value
    }

    /// The count that is under way, or serves still; else a new one.
    func current() -> Task<[Lane: Tally], any Error> {
        look.withLock { look in
            if let look, look.endsAt.map({ $0 > world.monotonic() }) ?? true { return look.task }
            let task = Task.detached { [self] in
                let begin = world.monotonic()
                var tallies: [Lane: Tally]?
                defer {
                    let now = world.monotonic()
                    // Who asks after a failure tries again.
                    let life = tallies == nil ? 0 : max(OwedAlerts.life, (now - begin) * OwedAlerts.rest)
                    self.look.withLock { $0 = $0.map { Look(task: $0.task, endsAt: now + life) } }
                }
                let counted = try await SystemThread.run(name: "count-owed") { [database] in try OwedAlerts.count(database) }
                tallies = counted
                return counted
            }
            look = Look(task: task)
            return task
        }
    }

    /// Counts, a part of the devices at a time, so that no view of the database is kept for long.
    static func count(_ database: Store) throws -> [Lane: Tally] {
        var tallies: [Lane: Tally] = [:]
        var oldest: [Lane: (key: DeliveryKey, dueAt: Timestamp)] = [:]
        var next = DeviceID(0)
        while let first = try database.readBlocking({ try $0.deliveries.firstOwedDevice(from: next) }) {
            let last = DeviceID(first.rawValue + devices)
            let owed = try database.survey { try $0.deliveries.owed(to: first...last) }
            for (lane, count, key, dueAt) in owed {
                tallies[lane, default: Tally()].count += count
                if oldest[lane].map({ key < $0.key }) ?? true { oldest[lane] = (key, dueAt) }
            }
            next = DeviceID(last.rawValue + 1)
        }
        for (lane, (key, dueAt)) in oldest {
            tallies[lane]?.oldest =
                try database.readBlocking { try $0.deliveries.created(key) } ?? key.notification.created(before: dueAt)
        }
        return tallies
    }
}
