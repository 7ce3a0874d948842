import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The answers of the repositories of devices: the same on both stores.
@Suite(.endsIfItHangs) struct DeviceConformanceTests {
    private typealias Compare = StoreComparison
    private static let apple = String(repeating: "ab", count: 32)
    private static let google = "fcm:Token-With-Case"

    /// Two users with devices: Alice's 1 to 4, two of them registered at the same time, and Bob's 5.
    private func fill(_ side: StoreComparison.Side) throws {
        try side.write { transaction in
            let alice = try transaction.inboxes.making(app: "shop", userID: "alice").id
            let bob = try transaction.inboxes.making(app: "shop", userID: "bob").id
            let tokens = transaction.deviceTokens
            _ = try tokens.insert(Compare.device(Self.apple, at: 100, appVersion: "1.0"), app: "shop", inbox: alice)
            _ = try tokens.insert(
                Compare.device(Self.google, at: 300, platform: .android, locale: "de"), app: "shop", inbox: alice)
            _ = try tokens.insert(Compare.device("third", at: 300, platform: .android), app: "shop", inbox: alice)
            _ = try tokens.insert(Compare.device("fourth", at: 200, environment: .sandbox), app: "shop", inbox: alice)
            _ = try tokens.insert(Compare.device("bobs", at: 400), app: "shop", inbox: bob)
            _ = try tokens.insert(Compare.device("bobs", at: 400), app: "other", inbox: bob)
        }
    }

    private static let all: @Sendable (StoreReading) throws -> [Any?] = { reading in
        let tokens = reading.deviceTokens
        var answers: [Any?] = [
            try tokens.counts().map { "\($0)" }, try tokens.dueParts(nil).map { "\($0)" }, try tokens.lastID(),
        ]
        for inbox in [1, 2, 3] as [InboxID] {
            answers += [
                try tokens.list(inbox: inbox), try tokens.reports(inbox: inbox), try tokens.devices(inbox: inbox),
            ]
        }
        return answers
    }

    @Test("devices are registered, found, moved and listed alike")
    func registry() throws {
        try Compare.run(atLeast: 60) { side in
            try fill(side)
            try side.read("all", Self.all)
            try side.read("find") { reading in
                let tokens = reading.deviceTokens
                var answers: [Any?] = []
                for token in [Self.apple, Self.apple.uppercased(), Self.google, Self.google.lowercased(), "bobs", "none", "fcm"] {
                    for kind in DeviceTokenKind.allCases {
                        let device = Compare.device(token, kind, at: 1)
                        answers += [
                            try tokens.installation(app: "shop", device), try tokens.installation(app: "none", device),
                        ]
                    }
                    answers += [
                        try tokens.devices(inbox: 1).place(of: token), try tokens.devices(inbox: 2).place(of: token),
                    ]
                }
                answers += try [1, 2, 99].map { try tokens.device($0) }
                answers += try [2, 4, 99].map { try tokens.stalest(inbox: 1, beyond: $0) }
                answers += try [1, 2, 3, 99].map { try tokens.has($0, app: "shop") }
                answers += [try tokens.hasRoom(for: Compare.device("x", at: 1), inbox: 1)]
                answers += try [0, 250, 900].map { try tokens.unseen(1...5, since: Timestamp(milliseconds: $0)) }
                answers += try [1, 5, 99].map { try tokens.isUnseen($0, since: Timestamp(milliseconds: 250)) }
                return answers
            }
            try side.write { transaction in
                _ = try transaction.inboxes.load(1)
                try transaction.deviceTokens.noteSeen(1)
            }
            try side.read("seen") { [try $0.deviceTokens.devices(inbox: 1)] }
            try side.write { transaction in
                let tokens = transaction.deviceTokens
                try tokens.update(1, Compare.device(Self.apple, at: 500, platform: .android, locale: "fr"), inbox: 2)
                try tokens.renew(2, Compare.device(Self.google, at: 501), environment: nil, inbox: 2)
                try tokens.renew(3, Compare.device("third", at: 502, appVersion: "2"), environment: .sandbox, inbox: 1)
                try tokens.setEnvironment(.sandbox, 4)
                // Within the transaction, whose they are now.
                _ = try tokens.devices(inbox: 1)
            }
            try side.read("moved", Self.all)
            try side.write { transaction in
                let tokens = transaction.deviceTokens
                let device = try #require(try tokens.device(2))
                try tokens.setIdentifier(of: device, to: Compare.device("fcm", .fid, at: 503), app: "shop")
                // Within the transaction, what it is now.
                _ = try tokens.installation(app: "shop", Compare.device(Self.google, at: 1))
            }
            try side.read("identified", Self.all)
            try side.read("found again") { reading in
                try [Self.google, "fcm:other", "fcm"].map {
                    try reading.deviceTokens.installation(app: "shop", Compare.device($0, at: 1))
                } + [try reading.leftTokens.leftAt(app: "shop", token: Self.google)]
            }
            try side.write { try $0.deviceTokens.delete(3) }
            try side.write { try $0.removeDevice(4, hasLeft: true) }
            try side.write { try $0.removeDevice(99, hasLeft: true) }
            try side.read("deleted", Self.all)
            try side.read("left") { reading in
                try ["third", "fourth"].map { try reading.leftTokens.leftAt(app: "shop", token: $0) }
            }
            side.note(try side.write { try $0.leftTokens.purge(before: Timestamp(milliseconds: 5), limit: 9) })
            side.note(try side.write { try $0.leftTokens.purge(before: Timestamp(milliseconds: .max), limit: 9) })
        }
    }

    @Test("an inbox keeps the last few of the tokens that left, and a token that comes back is none of them")
    func leftTokens() throws {
        try Compare.run(atLeast: 60) { side in
            try side.write { _ = try $0.inboxes.making(app: "shop", userID: "alice") }
            for number in 1...55 {
                try side.write { transaction in
                    let device = Compare.device("token \(number)", at: 1)
                    let id = try transaction.deviceTokens.insert(device, app: "shop", inbox: 1)
                    try transaction.removeDevice(id, hasLeft: true)
                }
            }
            try side.write { _ = try $0.deviceTokens.insert(Compare.device("token 30", at: 2), app: "shop", inbox: 1) }
            try side.read("left") { reading in
                try (1...60).map { try reading.leftTokens.leftAt(app: "shop", token: "token \($0)") != nil }
            }
        }
    }

    @Test("schedules are stored, due, answered and released alike")
    func schedules() throws {
        try Compare.run(atLeast: 60) { side in
            try fill(side)
            let now = side.clock.now
            try side.write { transaction in
                for (id, dueAt) in [(1, 0), (2, -5), (3, -5), (4, -9), (5, 0), (6, -1)] as [(Int64, Int64)] {
                    var schedule = try #require(try transaction.deviceTokens.device(DeviceID(id))?.schedule)
                    schedule.badgeDueAt = Timestamp(milliseconds: now.milliseconds + dueAt)
                    schedule.look(at: schedule.badgeDueAt)
                    schedule.toldCount = id
                    schedule.attempted = true
                    try transaction.deviceTokens.store(schedule)
                }
                let notification = Compare.notification(1, category: "c", data: "{}")
                try transaction.notifications.insert(notification, inbox: 1)
                for (number, dueAt) in [(1, -3), (2, -8), (3, 900)] as [(UInt64, Int64)] {
                    try transaction.deliveries.insert(
                        NewDelivery(
                            Compare.id(100 + number), notification: Compare.id(number), device: 4, inbox: 1,
                            dueAt: Timestamp(milliseconds: now.milliseconds + dueAt), reason: nil, trace: nil))
                }
            }
            try side.read("stored", Self.all)
            for part in [
                LanePart(Lane(app: "shop", provider: .apns), .ios, .production),
                LanePart(Lane(app: "shop", provider: .apns), .ios, .sandbox),
                LanePart(Lane(app: "shop", provider: .fcm), .android, .production),
                LanePart(Lane(app: "no", provider: .fcm), .android, .production),
            ] {
                for limit in [1, 2, 9] {
                    side.note(
                        try side.store.writeBlocking { try $0.deviceTokens.due(part, shards: nil, limit: limit) }
                    )
                }
            }
            side.note(try side.store.writeBlocking { try $0.deliveries.nextDue(device: 4) })
            side.note(try side.store.writeBlocking { try $0.deliveries.nextDue(device: 1) })
            try side.read("answered") { reading in
                try [1, 4, 99].map { try reading.deviceTokens.answered($0) }
            }
            // In flight by an earlier start and by this one.
            try side.write { transaction in
                for (id, lease, sending) in [(1, 7, nil), (4, 7, Compare.id(2)), (5, 9, nil)] as [(Int64, Int64, UUIDv7?)] {
                    var schedule = try #require(try transaction.deviceTokens.device(DeviceID(id))?.schedule)
                    schedule.lease = lease
                    schedule.sending = sending
                    schedule.look(at: nil)
                    try transaction.deviceTokens.store(schedule)
                    if let sending {
                        try transaction.deliveries.claim(notification: sending, device: DeviceID(id), reason: .withoutLink)
                    }
                }
            }
            try side.read("claimed", Self.all)
            try side.write { try $0.deliveries.release(devices: 1...4, shards: nil, lease: 9, resends: true) }
            side.note(try side.write { try $0.deviceTokens.release(1...4, shards: nil, lease: 9, resends: true) })
            try side.read("released", Self.all)
            try side.read("waiting") { reading in
                try [-9, -1, 0].map {
                    try reading.deviceTokens.waiting(after: Timestamp(milliseconds: now.milliseconds + $0), 1...5)
                }
            }
            for id in [1, 2, 5, 6] as [DeviceID] {
                try side.write {
                    try $0.deviceTokens.comeEarlier(id, by: 3, after: Timestamp(milliseconds: now.milliseconds - 6))
                }
            }
            try side.read("earlier", Self.all)
            try side.write { try $0.deviceTokens.forgetTold() }
            try side.read("untold", Self.all)
            try side.write { try $0.deviceTokens.forgetOwed() }
            try side.read("unowed", Self.all)
        }
    }

    @Test("the lanes that much is due in are found alike")
    func manyDue() throws {
        try Compare.run(atLeast: 2) { side in
            try side.write { transaction in
                let now = transaction.now.milliseconds
                for number in 0..<1_200 {
                    if number % 40 == 0 { _ = try transaction.inboxes.making(app: "shop", userID: "\(number / 40)") }
                    let device = Compare.device(
                        "token \(number)", at: 1, platform: number.isMultiple(of: 3) ? .android : .ios,
                        environment: number % 5 == 1 ? .sandbox : .production)
                    let id = try transaction.deviceTokens.insert(
                        device, app: number.isMultiple(of: 2) ? "shop" : "other", inbox: InboxID(Int64(number / 40 + 1)))
                    var schedule = try #require(try transaction.deviceTokens.device(id)?.schedule)
                    schedule.look(at: Timestamp(milliseconds: now + Int64(number * 7_919 % 1_200)))
                    try transaction.deviceTokens.store(schedule)
                }
            }
            try side.read("lanes") { [try $0.deviceTokens.dueParts(nil).map { "\($0)" }] }
            side.clock.advance(milliseconds: 600)
            let part = LanePart(Lane(app: "shop", provider: .apns), .ios, .production)
            let due = try side.store.writeBlocking { try $0.deviceTokens.due(part, shards: nil, limit: 100) }
            side.note(due.map { ($0.schedule.dueAt, $0.target.token, $0.userID) })
        }
    }
}
