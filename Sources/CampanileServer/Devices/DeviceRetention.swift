import CampanileCore
import SystemSupport

/// Removes device tokens that weren't seen for long: their apps are gone, and their provider didn't say so. And forgets which
/// ones left so long ago: a registration from before that goes by its own age.
struct DeviceRetention: Sendable {
    let database: Store
    /// For how long a device wasn't seen that goes; nil: none goes.
    let ageMilliseconds: Int64?
    let pause: Duration

    /// Walks over all devices once.
    /// - Returns: how many were removed.
    func run(now: Timestamp) async throws -> Int {
        guard let ageMilliseconds else { return 0 }
        let time = Timestamp(milliseconds: now.milliseconds - ageMilliseconds)
        let end = try await database.read { try $0.deviceTokens.lastID() }
        var first: Int64 = 1
        var removed = 0
        while first <= end, !Task.isCancelled {
            let range = first...(first + Int64(Limits.retentionLook) - 1)
            first = range.upperBound + 1
            var unseen = try await SystemThread.run(name: "retention") { [database] in
                try database.survey { try $0.deviceTokens.unseen(range, since: time) }
            }[...]
            while !unseen.isEmpty, !Task.isCancelled {
                let done = try await database.write(lane: .upkeep) { [unseen] in try remove(unseen, since: time, in: $0) }
                removed += done.removed
                unseen = done.left
                try await Task.sleep(for: pause)
            }
            try await Task.sleep(for: pause)
        }
        while !Task.isCancelled {
            let forgotten = try await database.write(lane: .upkeep) {
                try $0.leftTokens.purge(before: time, limit: Limits.purgedRowsPerTransaction)
            }
            guard forgotten == Limits.purgedRowsPerTransaction else { break }
            try await Task.sleep(for: pause)
        }
        return removed
    }

    /// Removes as many as one transaction may, and settles what was owed to them.
    private func remove(
        _ devices: ArraySlice<DeviceID>, since time: Timestamp, in transaction: StoreTransaction
    ) throws -> (left: ArraySlice<DeviceID>, removed: Int) {
        var budget = Limits.purgedRowsPerTransaction
        var removed = 0
        for (index, device) in zip(devices.indices, devices) {
            guard budget > 0, removed < Limits.removedDevicesPerTransaction else { return (devices[index...], removed) }
            // It may have come back meanwhile.
            guard try transaction.deviceTokens.isUnseen(device, since: time),
                let token = try transaction.deviceTokens.device(device)?.target.token
            else { continue }
            let limit = budget
            let settled = try transaction.deliveries.settleGone(device: device, token: token, limit: limit)
            if settled == limit { return (devices[index...], removed) }
            budget -= settled
            try transaction.removeDevice(device, hasLeft: false)
            removed += 1
        }
        return ([], removed)
    }
}
