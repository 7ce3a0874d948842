import Logging
import SQLEngine

/// Frees what an earlier start of the server had in flight when it ended. It walks over the devices in small
/// transactions, so that a start doesn't wait for it; until it comes by, a device of a dead lease is left alone.
struct LeaseRecovery: Sendable {
    let database: Database
    /// The number of this start.
    let lease: Int64
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
        while !Task.isCancelled {
            do {
                let end = try last ?? database.read { try DeviceTokenRepository.lastID(in: $0) }
                last = end
                guard first <= end else { break }
                let count = try await release(DeviceID(first)...DeviceID(first + Limits.leaseRecoveryRows - 1))
                if count > 0 { isFree() }
                released += count
                first += Limits.leaseRecoveryRows
            } catch {
                logger.error(
                    "The pushes that the last server had in flight can't be freed now; the server tries again.",
                    metadata: ["error": "\(error)"])
                try? await Task.sleep(for: LeaseRecovery.pause)
            }
        }
        return released
    }

    private func release(_ devices: ClosedRange<DeviceID>) async throws -> Int {
        try await database.write { [lease, resendsUnanswered] transaction in
            try DeliveryRepository.release(
                devices: devices, lease: lease, resends: resendsUnanswered, in: transaction)
            return try DeviceTokenRepository.release(
                devices, lease: lease, resends: resendsUnanswered, in: transaction)
        }
    }
}
