import CampanileCore
import Testing

@testable import CampanileServer

/// The answers of the repository of deliveries: the same on both stores.
@Suite(.endsIfItHangs) struct DeliveryConformanceTests {
    private typealias Compare = StoreComparison

    /// Two devices of Alice's and notifications 1 to 9; what the tests owe of them.
    private func fill(_ side: StoreComparison.Side) throws {
        try side.write { transaction in
            let alice = try transaction.inboxes.making(app: "shop", userID: "alice").id
            _ = try transaction.inboxes.making(app: "shop", userID: "bob").id
            for token in ["a", "b"] {
                _ = try transaction.deviceTokens.insert(Compare.device(token, at: 1), app: "shop", inbox: alice)
            }
            for number in 1...9 as ClosedRange<UInt64> {
                try transaction.notifications.insert(Compare.notification(number), inbox: alice)
            }
        }
    }

    private func owe(
        _ side: StoreComparison.Side, _ number: UInt64, to device: DeviceID, dueIn milliseconds: Int64?,
        reason: DeliveryReason? = nil
    ) throws {
        let trace = TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        try side.write { transaction in
            try transaction.deliveries.insert(
                NewDelivery(
                    Compare.id(100 + number), notification: Compare.id(number), device: device, inbox: 1,
                    dueAt: milliseconds.map { Timestamp(milliseconds: transaction.now.milliseconds + $0) }, reason: reason,
                    trace: number.isMultiple(of: 2) ? trace : nil))
        }
    }

    private static let all: @Sendable (StoreReading) throws -> [Any?] = { reading in
        let deliveries = reading.deliveries
        var answers: [Any?] = []
        for number in 1...9 as ClosedRange<UInt64> {
            answers += [
                try deliveries.list(notification: Compare.id(number)), try deliveries.inbox(ofNotification: Compare.id(number)),
                try deliveries.find(DeliveryKey(notification: Compare.id(number), device: 1)),
                try deliveries.find(DeliveryKey(notification: Compare.id(number), device: 0)),
                try deliveries.created(DeliveryKey(notification: Compare.id(number), device: 2)),
            ]
        }
        for device in [1, 2, 3] as [DeviceID] {
            answers += [try deliveries.nextDueAt(device: device), try deliveries.firstOwedDevice(from: device)]
        }
        answers += [
            try deliveries.owed(to: 1...2).map { "\($0)" }, try deliveries.owed(to: 2...9).map { "\($0)" },
            try deliveries.states(since: Timestamp(milliseconds: 0)),
            try deliveries.states(since: Timestamp(milliseconds: 4_000)),
            try deliveries.states(since: Timestamp(milliseconds: .max)),
            try deliveries.waiting(after: Timestamp(milliseconds: 0), 1...2).map { "\($0)" }.sorted(),
        ]
        return answers
    }

    @Test("what is owed is claimed, answered, tried again and settled alike")
    func answers() throws {
        try Compare.run(atLeast: 150) { side in
            try fill(side)
            try side.read("none", Self.all)
            for number in 1...6 as ClosedRange<UInt64> {
                try owe(side, number, to: 1, dueIn: number == 6 ? nil : Int64(number) - 3)
            }
            try owe(side, 2, to: 2, dueIn: 0)
            try owe(side, 7, to: 2, dueIn: nil, reason: .withoutLink)
            try side.write { transaction in
                for (number, reason) in zip([8, 9] as [UInt64], [NothingOwed.noDevices, .expired]) {
                    try transaction.deliveries.insert(
                        NewDelivery(noneOf: Compare.id(number), inbox: 1, reason: reason, at: transaction.now))
                }
            }
            try side.read("owed", Self.all)
            side.note(try side.store.readBlocking { try $0.deliveries.nothingOwed(notification: Compare.id(8)) })
            side.note(try side.store.readBlocking { try $0.deliveries.nothingOwed(notification: Compare.id(1)) })
            try side.write { try $0.deliveries.claim(notification: Compare.id(1), device: 1, reason: nil) }
            for number in 0..<13 {
                try side.write { transaction in
                    try transaction.deliveries.retry(
                        notification: Compare.id(1), device: 1, dueAt: transaction.now, isCounted: number != 3,
                        answer: number == 5 ? nil : "{\"n\":\(number),\"reason\":\"Gone \\u0000 ü \\\"\"}")
                }
            }
            try side.write { transaction in
                let deliveries = transaction.deliveries
                // Several changes of one in a transaction: the first end holds.
                try deliveries.claim(notification: Compare.id(1), device: 1, reason: .withoutLink)
                try deliveries.settle(notification: Compare.id(1), device: 1, .accepted, answer: "{\"reason\":\"last\"}")
                try deliveries.settle(notification: Compare.id(1), device: 1, .failed, answer: nil)
                try deliveries.retry(
                    notification: Compare.id(1), device: 1, dueAt: transaction.now, isCounted: true, answer: "{}")
                try deliveries.settle(notification: Compare.id(2), device: 1, .rejected, answer: "{\"reason\":\"Bad\"}")
                try deliveries.withhold(notification: Compare.id(3), device: 1, .appVersion)
                try deliveries.settleGone(sending: Compare.id(6), device: 1, token: "a")
                try deliveries.settle(notification: Compare.id(7), device: 2, .failed, answer: nil)
                try deliveries.settle(notification: Compare.id(99), device: 2, .failed, answer: nil)
            }
            try side.read("answered", Self.all)
            try search(side)
            side.note(try side.write { try $0.deliveries.purge(from: .least, before: Compare.id(8), limit: 3) })
            side.note(try side.write { try $0.deliveries.purge(from: Compare.id(3), before: Compare.id(8), limit: 30) })
            try side.read("purged", Self.all)
            try search(side)
            side.note(try side.write { try $0.deliveries.settleAll(.restored) })
            try side.read("ended", Self.all)
        }
    }

    private func search(_ side: StoreComparison.Side) throws {
        for state in [nil, "rejected", "failed", "gone", "withheld", "accepted", "owed", "sending", "none", "other"] {
            for reason in [nil, "Bad", "last", "Gone", "app_version", "no_devices"] {
                for (notification, limit, app) in [
                    (nil, 99, "shop"), (nil, 2, "shop"), (Compare.id(2), 99, "shop"), (nil, 99, "other"),
                ] as [(UUIDv7?, Int, String)] {
                    let filter = DeliveryFilter(app: app, state: state, reason: reason, notification: notification)
                    var found: [String] = []
                    try side.store.readBlocking { reading in
                        try reading.deliveries.search(filter, limit: limit) { key, isWanted in
                            // A store may leave out at once what the state alone excludes.
                            if isWanted { found.append("\(key.notification) \(key.device)") }
                        }
                    }
                    side.note(found, "search \(state ?? "") \(reason ?? "") \(limit)")
                }
            }
        }
    }

    @Test("what was owed to a device that left is settled in parts alike")
    func departed() throws {
        try Compare.run(atLeast: 80) { side in
            try fill(side)
            for number in 1...7 as ClosedRange<UInt64> { try owe(side, number, to: 1, dueIn: number.isMultiple(of: 2) ? -5 : -9) }
            try owe(side, 8, to: 1, dueIn: nil)
            side.note(try side.write { try $0.deliveries.settleGone(device: 1, token: "a", limit: 2) })
            try side.write { try $0.departedDevices.insert(1, from: 1, token: "a") }
            let departed: @Sendable (StoreReading) throws -> [Any?] = { reading in
                let devices = reading.departedDevices
                return [
                    try devices.isAny(), try devices.first(), try devices.find(1, from: 1), try devices.find(1, from: 2),
                    try reading.deviceTokens.answered(1), try reading.deviceTokens.answered(2),
                ]
            }
            try side.read("left", departed)
            try side.read("left", Self.all)
            try search(side)
            let end = DuePlace(dueAt: Timestamp(milliseconds: .max), notification: .greatest)
            let places = try side.write { try $0.deliveries.owed(to: 1, before: end, limit: 3) }
            side.note(places)
            try side.write { transaction in
                let found = try #require(try transaction.departedDevices.first())
                let last = try #require(places.last)
                try transaction.deliveries.settleGone(found, from: last)
                try transaction.departedDevices.shorten(found, to: last)
            }
            try side.read("shortened", departed)
            try side.read("shortened", Self.all)
            try side.write { try $0.settleDeparted() }
            try side.read("settled", departed)
            try side.read("settled", Self.all)
            try side.write { try $0.departedDevices.insert(2, from: 1, token: "b") }
            side.note(try side.write { try $0.settleDeparted(2, from: 1) })
            side.note(try side.write { try $0.settleDeparted(2, from: 2) })
            let key = DeliveryKey(notification: Compare.id(9), device: 2)
            try owe(side, 9, to: 2, dueIn: 50)
            let dueAt = try #require(try side.store.readBlocking { try $0.deliveries.nextDueAt(device: 2) })
            try side.write { try $0.deliveries.comeEarlier(key, dueAt: dueAt, by: 20, after: $0.now) }
            try side.write { try $0.deliveries.comeEarlier(key, dueAt: dueAt, by: 20, after: $0.now) }
            try side.read("earlier", Self.all)
        }
    }
}
