import CampanileCore

/// After the clock was set back: what waits for a time that it had before comes due that much earlier. In small transactions, because
/// it may be very much.
struct EarlierTimes: Sendable {
    let database: Store
    /// By how much it was set back.
    let milliseconds: Int64
    let now: Timestamp

    /// Walks over all devices. Whoever runs it again after a failure makes come earlier once more what came already: a few retries too
    /// early, and not hours late.
    func run() async throws {
        let end = try await database.read { try $0.deviceTokens.lastID() }
        var first: Int64 = 1
        while first <= end {
            let range = DeviceID(first)...DeviceID(first + Limits.clockLook - 1)
            first += Limits.clockLook
            let (alerts, devices) = try database.survey { [now] reading in
                (
                    try reading.deliveries.waiting(after: now, range),
                    try reading.deviceTokens.waiting(after: now, range)
                )
            }
            try await inParts(alerts) { alert, transaction in
                try transaction.deliveries.comeEarlier(
                    alert.key, dueAt: alert.dueAt, by: milliseconds, after: now)
            }
            // After its alerts: a device that is too early looks again, and one that is later than its alerts sleeps past them.
            try await inParts(devices) { device, transaction in
                try transaction.deviceTokens.comeEarlier(device, by: milliseconds, after: now)
            }
        }
    }

    private func inParts<Element: Sendable>(
        _ elements: [Element], _ body: @escaping @Sendable (Element, StoreTransaction) throws -> Void
    ) async throws {
        var left = elements[...]
        while !left.isEmpty {
            let part = left.prefix(Limits.earlierPerTransaction)
            left = left.dropFirst(part.count)
            try await database.write { transaction in
                for element in part { try body(element, transaction) }
            }
        }
    }
}
