import Logging
import SQLEngine

/// Frees what an earlier start of the server, or another node, had in flight when it ended. It walks over the devices in small
/// transactions, so that a start doesn't wait for it; until it comes by, a device of a dead lease is left alone. On a cluster it
/// reads where the next such device is first: there may be very many devices, and few were in flight.
struct LeaseRecovery: Sendable {
    let database: Store
    /// The lease that isn't freed: this process' own.
    let lease: Int64
    /// The shards of device tokens that it is about; nil: all.
    var shards: [Int16]?
    let resendsUnanswered: Bool
    let logger: Logger

    private static let pause = Duration.seconds(1)

    /// Walks to the end, whatever it takes: a database that can't be written now is asked again, because a device that
    /// is left out would never get a push again.
    /// - Parameter isFree: called after each part in which a device was freed.
    /// - Returns: how many devices had a push in flight; fewer than there were if the task was cancelled.
    func run(isFree: () -> Void = {}) async -> Int {
        var released = 0
        var first: Int64 = 1
        var last: Int64?
        var look = Limits.leaseRecoveryLook
        while !Task.isCancelled {
            do {
                let end = if let last { last } else { try await database.read { try $0.deviceTokens.lastID() } }
                last = end
                if let shards, first <= end {
                    let looked = DeviceID(first)...DeviceID(first + look - 1)
                    // In a lane, because a thread that waits for the database keeps the beats from theirs.
                    let next = try await database.write(lane: .upkeep) { [lease] in
                        try $0.deviceTokens.firstInFlight(looked, shards: shards, before: lease)
                    }
                    first = next?.rawValue ?? looked.upperBound.rawValue + 1
                    if next == nil { continue }
                }
                guard first <= end else { break }
                let count = try await release(DeviceID(first)...DeviceID(first + Limits.leaseRecoveryRows - 1))
                if count > 0 { isFree() }
                released += count
                first += Limits.leaseRecoveryRows
            } catch {
                // Less may be read within a statement's time, from a disk that is cold.
                if (error as? SQLError)?.code == .busy { look = max(look / 2, Limits.leaseRecoveryRows) }
                logger.error(
                    "The pushes that the last server had in flight can't be freed now; the server tries again.",
                    metadata: ["error": "\(error)"])
                try? await Task.sleep(for: LeaseRecovery.pause)
            }
        }
        return released
    }

    private func release(_ devices: ClosedRange<DeviceID>) async throws -> Int {
        try await database.write(lane: .upkeep) { [lease, shards, resendsUnanswered] transaction in
            try transaction.deliveries.release(
                devices: devices, shards: shards, lease: lease, resends: resendsUnanswered)
            return try transaction.deviceTokens.release(
                devices, shards: shards, lease: lease, resends: resendsUnanswered)
        }
    }
}
