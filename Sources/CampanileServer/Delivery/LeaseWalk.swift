import CampanileCore
import SQLEngine

/// Frees what an earlier start of the server had in flight when it ended. It walks over the devices in small
/// transactions, so that a start doesn't wait for it; until it comes by, a device of a dead lease is left alone.
struct LeaseWalk: Sendable {
    let database: Database
    let world: World
    /// The number of this start.
    let lease: Int64
    let resendsUnanswered: Bool

    /// - Returns: how many devices had a push in flight.
    func run() async throws -> Int {
        let last = try database.read { try DeviceTokenRepository.lastID(in: $0) }
        var released = 0
        var first: Int64 = 1
        while first <= last {
            released += try await release(first...(first + Limits.leaseWalkRows - 1))
            first += Limits.leaseWalkRows
        }
        return released
    }

    private func release(_ devices: ClosedRange<Int64>) async throws -> Int {
        let now = world.now()
        return try await database.write { [lease, resendsUnanswered] connection in
            try DeliveryRepository.release(
                devices: devices, lease: lease, resends: resendsUnanswered, now: now, in: connection)
            return try DeviceTokenRepository.release(devices, lease: lease, now: now, in: connection)
        }
    }
}
