import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// The answers of the repositories of the small tables: the same on both stores.
@Suite(.endsIfItHangs) struct SmallTableConformanceTests {
    private typealias Compare = StoreComparison

    @Test("API keys, lanes, provider tokens, revocations and imported entries are kept alike")
    func small() throws {
        try Compare.run(atLeast: 20) { side in
            try side.write { transaction in
                try transaction.apiKeys.insert(name: "one", app: "shop", kind: .producer, hash: [1, 2, 0])
                try transaction.apiKeys.insert(name: "two", app: "shop", kind: .operate, hash: [3])
            }
            side.note(try side.write { try $0.apiKeys.revoke(name: "one") })
            side.note(try side.write { try $0.apiKeys.revoke(name: "one") })
            try side.write { try $0.apiKeys.insert(name: "one", app: "shop", kind: .producer, hash: [4]) }
            // Of a revoked name there may be several, of a valid one not.
            side.note((try? side.write { try $0.apiKeys.insert(name: "two", app: "x", kind: .operate, hash: [9]) }) != nil)
            try side.read("keys") { reading in
                try [reading.apiKeys.list()] + [[1, 2, 0], [3], [4], [5]].map { try reading.apiKeys.find(hash: $0) }
            }
            let parts = [
                LanePart(Lane(app: "b", provider: .fcm), .ios, .production),
                LanePart(Lane(app: "b", provider: .fcm), .android, .production),
                LanePart(Lane(app: "B", provider: .apns), .ios, .sandbox),
                LanePart(Lane(app: "a", provider: .apns), .ios, .production),
            ]
            for kind in [LaneCondition.Kind.parked, .outage] {
                try side.write { transaction in
                    for part in parts {
                        try transaction.laneConditions.set(LaneCondition(kind: kind, reason: "r", since: transaction.now), part)
                    }
                }
            }
            try side.write { try $0.laneConditions.set(nil, parts[0]) }
            try side.read("lanes") { [try $0.laneConditions.all().map { "\($0)" }] }
            try side.write { try $0.laneConditions.clear() }
            try side.read("lanes") { [try $0.laneConditions.all().map { "\($0)" }] }
            for time in [5, 9] as [Int64] {
                try side.write { transaction in
                    try transaction.providerTokens.replace(
                        team: "T", with: [.init(teamID: "T", keyID: "K", keyFingerprint: "f", issuedAt: time, token: "t\(time)")])
                }
            }
            try side.read("tokens") { reading in try ["T", "U"].map { try reading.providerTokens.tokens(team: $0) } }
            for time in [5, 9, 7] as [Int64] {
                try side.write {
                    try $0.revocations.revoke(app: "shop", userID: "u", tokensBefore: Timestamp(milliseconds: time))
                }
            }
            try side.read("revoked") { reading in
                [
                    try reading.revocations.notBefore(app: "shop", userID: "u"),
                    try reading.revocations.notBefore(app: "s", userID: "u"),
                    try reading.revocations.after(Timestamp(milliseconds: 8)),
                    try reading.revocations.after(Timestamp(milliseconds: 9)),
                    try reading.revocations.of([UserKey(app: "shop", userID: "u"), UserKey(app: "shop", userID: "v")]),
                ]
            }
            for id in ["1", "1", "e\u{301}", "\u{e9}"] {
                side.note(try side.write { try $0.importedEntries.note(app: "shop", externalID: id) })
            }
            try side.read("imported") { reading in
                try ["1", "2", "\u{e9}"].map { try reading.importedEntries.has(app: "shop", externalID: $0) }
            }
        }
    }

    @Test("the first answer to a key is found until it is too old, then replaced and forgotten alike")
    func idempotency() throws {
        try Compare.run(atLeast: 20) { side in
            let find: @Sendable (StoreReading) throws -> [Any?] = { reading in
                try [0, 1_795_000_000_002, .max].flatMap { since in
                    try ["k", "K", "none"].map {
                        try reading.idempotencyKeys.find(key: $0, apiKey: 1, since: Timestamp(milliseconds: since)).map {
                            "\($0)"
                        }
                    }
                }
            }
            let answers = [IdempotentAnswer(location: nil, body: []), IdempotentAnswer(location: "/1", body: [0, 255])]
            for (number, key) in ["k", "K", "k"].enumerated() {
                try side.write { transaction in
                    // As a request does, and without a look as the end of an older program's large call.
                    if number != 1 {
                        _ = try transaction.idempotencyKeys.find(key: key, apiKey: 1, since: transaction.now)
                    }
                    try transaction.idempotencyKeys.store(
                        answers[number % 2], to: IdempotencyKey(text: key, producer: 1, fingerprint: [UInt8(number)]))
                    try transaction.idempotencyKeys.store(
                        answers[number % 2], to: IdempotencyKey(text: key, producer: 2, fingerprint: [UInt8(number)]))
                }
                try side.read("\(number)", find)
            }
            // Noted, noted again, and answered, each in place of what was there.
            for (number, made) in [1, 3, 0].enumerated() {
                try side.write { transaction in
                    let call = IdempotencyKey(text: "k", producer: 1, fingerprint: [9])
                    if number != 1 {
                        _ = try transaction.idempotencyKeys.find(key: "k", apiKey: 1, since: transaction.now)
                    }
                    if made == 0 {
                        try transaction.idempotencyKeys.store(
                            answers[1], to: IdempotencyKey(text: "k", producer: 1, fingerprint: [9]))
                    } else {
                        // The second also one part after the other in one transaction.
                        for count in (number == 1 ? made - 1 : made)...made {
                            try transaction.idempotencyKeys.note(
                                (0..<count).map { number in
                                    let badge = Badge(count: 1, unreadCount: Int64(number), version: 256, updatedAt: nil)
                                    return .init(id: Compare.id(UInt64(number)), badge: number == 1 ? nil : badge)
                                }, of: call)
                        }
                    }
                }
                try side.read("noted \(made)", find)
            }
            for (limit, bytes) in [(1, 99), (9, 1), (9, 99)] as [(Int, Int64)] {
                side.note(try side.write { try $0.idempotencyKeys.purge(before: $0.now, limit: limit, bytes: bytes) })
                try side.read("purged", find)
            }
        }
    }

    @Test("an older program's large call is found with every field and without, and its parts in their order, alike")
    func largeCalls() throws {
        try Compare.run(atLeast: 4) { side in
            var new = NewNotification(
                userIDs: ["a", "é", "c\"", "d"],
                content: NotificationContent(title: "t", body: "b", category: "c", deepLink: "l", data: "{}"),
                push: PushRequestOptions(
                    push: true, sound: "s", collapseKey: "k", threadID: "th", expiresAt: Timestamp(milliseconds: 9)),
                isForMany: true)
            new.trace = TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            let bare = NewNotification(
                userIDs: ["z"], content: NotificationContent(title: "t", body: "b", category: nil, deepLink: nil, data: nil),
                push: PushRequestOptions(push: false, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil),
                isForMany: true)
            let key = IdempotencyKey(text: "key", producer: 3, fingerprint: [7])
            try EarlierCall.write(
                new, app: "shop", key: key, parts: [(2, [Compare.id(3)]), (0, [Compare.id(1), Compare.id(2)])], side.store)
            try EarlierCall.write(bare, app: "shop", key: nil, parts: [], side.store)
            try side.read("begun") { [try $0.largeCalls.unfinished()] }
            try side.write { try $0.largeCalls.withholdPushes() }
            try side.read("withheld") { [try $0.largeCalls.unfinished()] }
            let first = try #require(try side.store.readBlocking { try $0.largeCalls.unfinished() }.first)
            #expect(first.made == (1...3).map { Compare.id($0) })
            side.note(try side.write { [try $0.largeCalls.take(first.id)?.made, try $0.largeCalls.take(99)?.made] })
            try side.write { try $0.largeCalls.delete(first.id) }
            try side.read("done") { [try $0.largeCalls.unfinished()] }
        }
    }

    @Test("what a start has to know is kept alike; ids are reserved by SQLite alone")
    func programState() throws {
        try Compare.run(atLeast: 15) { side in
            let read: @Sendable (StoreReading) throws -> [Any?] = { reading in
                let state = reading.programState
                return [
                    try state.versionsFrom(), try state.retainedAt(), try state.doubtedAt(), try state.badgePolicy(of: "shop"),
                    try state.badgePolicy(of: "other"),
                    try state.streamTokenKey(),
                ]
            }
            try side.read("new", read)
            side.note(try side.write { try $0.programState.countStart() })
            side.note(try side.write { try $0.programState.countStart() })
            try side.write { transaction in
                let state = transaction.programState
                try state.noteDoubt()
                _ = try state.adopt(PerApp(["shop"]) { $0 == "shop" ? .given : .sinceOpened })
                try state.setStreamTokenKey([1, 0, 2])
                try state.beginVersions(from: 44)
                try state.proveWritable(by: nil)
                try state.reserveIDs(until: 55)
            }
            try side.read("set", read)
            try side.write { try $0.programState.keepRetained(Timestamp(milliseconds: 66)) }
            try side.read("kept", read)
            try side.write { try $0.programState.noteRetained() }
            try side.write { try $0.programState.keepRetained(Timestamp(milliseconds: 67)) }
            try side.read("retained", read)
        }
    }

    @Test("an unstorable text fails its own write alone")
    func unstorable() throws {
        let side = try StoreComparison.Side(.postgres)
        #expect(throws: SQLError.self) {
            try side.write { try $0.notifications.insert(Compare.notification(1, "a\0b"), inbox: 1) }
        }
        #expect(try side.write { try $0.inboxes.making(app: "shop", userID: "alice").id } == 1)
    }
}
