import CampanileCore
import SQLEngine

/// After the clock was set back: what waits for a time that it had before comes due that much earlier. In small transactions, because
/// it may be very much.
struct EarlierTimes: Sendable {
    let database: Database
    /// By how much it was set back.
    let milliseconds: Int64
    let now: Timestamp

    /// Walks over all devices. Whoever runs it again after a failure makes come earlier once more what came already: a few retries too
    /// early, and not hours late.
    func run() async throws {
        let end = try database.read { try DeviceTokenRepository.lastID(in: $0) }
        var first: Int64 = 1
        while first <= end {
            let range = DeviceID(first)...DeviceID(first + Limits.clockLook - 1)
            first += Limits.clockLook
            let (alerts, devices) = try database.survey { [now] connection in
                (
                    try DeliveryRepository.waiting(after: now, range, in: connection),
                    try DeviceTokenRepository.waiting(after: now, range, in: connection)
                )
            }
            try await inParts(alerts) { alert, transaction in
                try DeliveryRepository.comeEarlier(
                    alert.key, dueAt: alert.dueAt, by: milliseconds, after: now, in: transaction)
            }
            // After its alerts: a device that is too early looks again, and one that is later than its alerts sleeps past them.
            try await inParts(devices) { device, transaction in
                try DeviceTokenRepository.comeEarlier(device, by: milliseconds, after: now, in: transaction)
            }
        }
    }

    private func inParts<Element: Sendable>(
        _ elements: [Element], _ body: @escaping @Sendable (Element, Transaction) throws -> Void
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
