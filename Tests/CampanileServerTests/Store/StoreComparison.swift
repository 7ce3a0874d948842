import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// A comparison of two stores, which have to answer the same calls with the same.
struct StoreComparison {
    /// One of the two, with what it answered.
    final class Side {
        let store: Store
        let clock = HandClock()
        /// Without the shards: a file has one, and PostgreSQL many.
        var answers: [String] { noted.map { $0.replacing(/shard: \d+/, with: "shard") } }
        private var noted: [String] = []
        private let folder = TemporaryFolder()

        init(_ kind: TestedStore) throws {
            store = try kind.open(folder, world: .hand(clock))
        }

        deinit { store.close() }

        /// Notes an answer.
        func note<Answer>(_ answer: Answer?, _ word: String = "") { noted.append("\(word) \(answer.map { "\($0)" } ?? "nil")") }

        /// Notes what each of some reads answers: outside a transaction and, by the same calls, in one.
        func read(_ word: String = "", _ body: @escaping @Sendable (StoreReading) throws -> [Any?]) throws {
            let outside = try store.readBlocking { try body($0).map { "\($0.map { "\($0)" } ?? "nil")" } }
            let inside = try store.writeBlocking { transaction in
                try body(transaction.reading).map { "\($0.map { "\($0)" } ?? "nil")" }
            }
            #expect(inside == outside, "a transaction reads otherwise: \(word)")
            for answer in outside { noted.append("\(word) \(answer)") }
        }

        @discardableResult
        func write<T: Sendable>(_ body: @escaping @Sendable (StoreTransaction) throws -> T) throws -> T {
            let result = try store.writeBlocking(body)
            clock.advance(milliseconds: 1)
            return result
        }
    }

    /// - Parameter count: the least number of answers that there must be to compare.
    static func run(atLeast count: Int, _ body: (Side) throws -> Void) throws {
        let sides = try TestedStore.allCases.map { try Side($0) }
        for side in sides { try body(side) }
        let (expected, found) = (sides[0].answers, sides[1].answers)
        for (index, pair) in zip(expected, found).enumerated() where pair.0 != pair.1 {
            Issue.record("answer \(index): SQLite has \(pair.0), PostgreSQL \(pair.1)")
        }
        #expect(expected.count == found.count && expected.count >= count)
    }

    // MARK: What they are filled with

    static func id(_ number: UInt64) -> UUIDv7 {
        UUIDv7(high: 0x019A_0000_0000_7000 + number, low: 0x8000_0000_0000_0000 + number)
    }

    static func notification(_ number: UInt64, _ title: String = "Title", category: String? = nil, data: String? = nil)
        -> Notification
    {
        Notification(
            id: id(number), createdAt: Timestamp(milliseconds: Int64(number) * 1_000), readAt: nil,
            content: NotificationContent(title: title, body: "Body äöü €", category: category, deepLink: nil, data: data),
            push: .standard)
    }

    static func device(
        _ token: String, _ kind: DeviceTokenKind = .token, at time: Int64, platform: DevicePlatform = .ios,
        environment: DeviceEnvironment = .production, appVersion: String? = nil, locale: String? = nil
    ) -> DeviceToken {
        DeviceToken(
            token: token, kind: kind, platform: platform, provider: DeviceProvider(defaultFor: platform),
            environment: environment,
            appVersion: appVersion, locale: locale, lastRegisteredAt: Timestamp(milliseconds: time))
    }
}
