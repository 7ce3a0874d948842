import CampanileCore
import Crypto
import Testing

@testable import Push

/// Apple's checks of provider tokens, by the true time.
private struct AppleClock {
    private(set) var renewals: [(iat: Int64, at: Int64)] = []
    private(set) var oldest: Int64 = 0
    private(set) var newest: Int64 = 0

    /// - Parameter now: seconds of the true time.
    mutating func present(_ issuedAt: Int64, now: Int64) {
        oldest = max(oldest, now - issuedAt)
        newest = min(newest, now - issuedAt)
        if renewals.last?.iat != issuedAt { renewals.append((issuedAt, now)) }
    }

    /// Seconds between two renewals, at least; nil with fewer than two.
    var shortestInterval: Int64? { zip(renewals, renewals.dropFirst()).map { $1.at - $0.at }.min() }
}

@Suite("Provider tokens of a team") struct APNsProviderTokensTests {
    private static func tokens(_ store: any ProviderTokenStore, _ hand: HandClock) -> APNsProviderTokens {
        APNsProviderTokens(team: TestKeys.team, store: store, world: hand.world, logger: silent)
    }

    @Test("a token is a JWT with ES256, the key's id, the team and whole seconds, and nothing else")
    func form() async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let token = try await Self.tokens(MemoryTokenStore(), hand).token(for: key).get()
        #expect(try TestKeys.issuedAt(token) == hand.seconds)
        let parts = token.split(separator: ".").compactMap { TestKeys.decode(String($0)) }
        #expect(String(decoding: parts[0], as: UTF8.self) == #"{"alg":"ES256","kid":"KEY0000001"}"#)
        #expect(
            String(decoding: parts[1], as: UTF8.self) == #"{"iss":"TEAM000001","iat":\#(hand.seconds)}"#)
        #expect(parts[2].count == 64)
        #expect(token.utf8.allSatisfy { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "/") })
    }

    @Test("it is renewed when it is 50 minutes old, and not before; the wall clock has no say")
    func age() async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let store = MemoryTokenStore()
        let tokens = Self.tokens(store, hand)
        let first = try await tokens.token(for: key).get()
        hand.jump(seconds: 3_600)
        hand.advance(seconds: 50 * 60 - 1)
        #expect(try await tokens.token(for: key).get() == first)
        #expect(store.writes.count == 1)
        hand.jump(seconds: -3_600)
        hand.advance(seconds: 5 * 60)
        #expect(try await tokens.token(for: key).get() != first)
        #expect(store.writes.count == 2)
    }

    @Test("who asks during a renewal gets the old token while it is good, or waits: one renewal for all")
    func singleFlight() async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let store = MemoryTokenStore()
        let tokens = Self.tokens(store, hand)
        for minutes: Int64 in [0, 51, 58] {
            hand.advance(seconds: minutes * 60)
            let all = await withTaskGroup(of: String?.self) { group in
                for _ in 0..<100 { group.addTask { try? await tokens.token(for: key).get() } }
                return await group.reduce(into: Set<String?>()) { $0.insert($1) }
            }
            #expect(!all.contains(nil))
            #expect(all.count <= 2)
            await store.untilWritten([0: 1, 51: 2, 58: 3][minutes, default: 0])
        }
        #expect(store.writes.count == 3)
    }

    @Test("a new token is presented when it is made, however quiet it is: two renewals never meet")
    func presentedAtOnce() async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let tokens = Self.tokens(MemoryTokenStore(), hand)
        _ = try await tokens.token(for: key).get()
        var apple = AppleClock()
        for minutes: Int64 in [50, 49, 2, 3, 48] {
            hand.advance(seconds: minutes * 60)
            let token = try await tokens.token(for: key).get()
            apple.present(try TestKeys.issuedAt(token), now: hand.seconds)
            try await lookUntil { tokens.isIdle }
        }
        #expect(apple.renewals.allSatisfy { $0.iat == $0.at })
        #expect(try #require(apple.shortestInterval) >= 50 * 60)
    }

    @Test("another key of the team signs with the team's time of issue: no renewal")
    func secondKey() async throws {
        let hand = HandClock()
        let store = MemoryTokenStore()
        let tokens = Self.tokens(store, hand)
        let first = try await tokens.token(for: try TestKeys.key()).get()
        hand.advance(seconds: 10 * 60)
        let second = try await tokens.token(for: try TestKeys.key(TestKeys.second, id: "KEY0000002")).get()
        #expect(first != second)
        let issuedAt = try TestKeys.issuedAt(second, TestKeys.second)
        #expect(try TestKeys.issuedAt(first) == issuedAt)
    }

    @Test("one key file under two ids: each has its token, and neither takes the other's place")
    func oneFileTwoIDs() async throws {
        let hand = HandClock()
        let store = MemoryTokenStore()
        let tokens = Self.tokens(store, hand)
        let keys = [try TestKeys.key(id: "KEY0000001"), try TestKeys.key(id: "KEY0000002")]
        var first: [String] = []
        for key in keys { first.append(try await tokens.token(for: key).get()) }
        #expect(Set(first).count == 2)
        #expect(try TestKeys.issuedAt(first[0]) == TestKeys.issuedAt(first[1]))
        for _ in 0..<3 {
            for (key, token) in zip(keys, first) { #expect(try await tokens.token(for: key).get() == token) }
        }
        await store.untilWritten(2)
        // A restart presents both again.
        let next = Self.tokens(store, hand)
        for (key, token) in zip(keys, first) { #expect(try await next.token(for: key).get() == token) }
        #expect(store.writes.count == 2)

        // A token that was refused under one id is the other one's no business before the team's renewal.
        hand.advance(seconds: 31 * 60)
        #expect(next.refused(first[0], of: keys[0], reason: "InvalidProviderToken") == .retry)
        let renewed = [try await next.token(for: keys[0]).get(), try await next.token(for: keys[1]).get()]
        #expect(Set(renewed + first).count == 4)
        #expect(try TestKeys.issuedAt(renewed[0]) == TestKeys.issuedAt(renewed[1]))
        #expect(next.refused(renewed[1], of: keys[1], reason: "InvalidProviderToken") != .retry)
    }

    @Test("a restart presents the same token, and the next one is renewed when its turn comes")
    func restart() async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let store = MemoryTokenStore()
        let first = try await Self.tokens(store, hand).token(for: key).get()
        hand.advance(seconds: 30 * 60)
        let tokens = Self.tokens(store, hand)
        #expect(try await tokens.token(for: key).get() == first)
        hand.advance(seconds: 25 * 60)
        #expect(try await tokens.token(for: key).get() != first)
        #expect(store.writes.count == 2)
    }

    @Test("a store that fails doesn't stop the pushes")
    func brokenStore() async throws {
        struct Broken: ProviderTokenStore {
            struct Failure: Error {}
            func load(team: String) async throws -> [StoredProviderToken] { throw Failure() }
            func replace(team: String, with tokens: [StoredProviderToken]) async throws { throw Failure() }
        }
        let tokens = APNsProviderTokens(team: TestKeys.team, store: Broken(), world: HandClock().world, logger: silent)
        #expect(try await !tokens.token(for: try TestKeys.key()).get().isEmpty)
    }

    @Test(
        "thirty days, restarts, clocks up to 5 minutes wrong: younger than 60 minutes, never two renewals in 20",
        arguments: [1, 2, 3] as [UInt64])
    func thirtyDays(_ seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let hand = HandClock()
        let store = MemoryTokenStore()
        let keys = [
            (try TestKeys.key(), TestKeys.first),
            (try TestKeys.key(TestKeys.second, id: "KEY0000002"), TestKeys.second),
        ]
        var apple = AppleClock()
        var process = ProcessStore(store)
        var tokens = Self.tokens(process, hand)
        var now: Int64 = 0
        let start = hand.seconds
        var offset: Int64 = 0
        while now < 30 * 86_400 {
            // What is under way takes no time. Then it is mostly busy, with hours of silence.
            try await lookUntil { tokens.isIdle }
            let step = random.next() % 50 == 0 ? Int64(random.next() % 20_000) : Int64(random.next() % 900)
            now += step
            hand.advance(seconds: step)
            if random.next() % 10 == 0 {
                let next = Int64(random.next() % 601) - 300
                hand.jump(seconds: next - offset)
                offset = next
            }
            let (key, privateKey) = keys[Int(random.next() % 2)]
            let token = try await tokens.token(for: key).get()
            apple.present(try TestKeys.issuedAt(token, privateKey), now: start + now)
            if random.next() % 15 == 0 {
                // Killed, maybe in the middle of a renewal that nobody waited for.
                process.kill()
                process = ProcessStore(store)
                tokens = Self.tokens(process, hand)
            }
        }
        #expect(apple.oldest < 3_600)
        #expect(apple.newest >= -300)
        #expect(try #require(apple.shortestInterval) >= 20 * 60)
        #expect(apple.renewals.count > 300)
    }

    @Test(
        "a clock set an hour wrong and back: no storm, a sentence that names the clock, and recovery",
        arguments: [3_600, -3_600] as [Int64])
    func hourWrong(_ jump: Int64) async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let store = MemoryTokenStore()
        let tokens = Self.tokens(store, hand)
        let start = hand.seconds
        var apple = AppleClock()
        var named = 0
        for minute: Int64 in 0..<600 {
            if minute == 100 { hand.jump(seconds: jump) }
            if minute == 300 { hand.jump(seconds: -jump) }
            let now = start + minute * 60
            var isTaken = false
            // The push, and once more if another token can be had.
            for _ in 0..<2 {
                let token = try await tokens.token(for: key).get()
                let issuedAt = try TestKeys.issuedAt(token)
                apple.present(issuedAt, now: now)
                if abs(now - issuedAt) < 3_600, now - issuedAt >= -300 {
                    tokens.accepted()
                    isTaken = true
                    break
                }
                let word = now > issuedAt ? "ExpiredProviderToken" : "InvalidProviderToken"
                guard case .mend(let sentence) = tokens.refused(token, of: key, reason: word) else { continue }
                if sentence.contains("the clock of this machine") { named += 1 }
                break
            }
            if minute > 321 { #expect(isTaken, "minute \(minute)") }
            try await lookUntil { tokens.isIdle }
            hand.advance(seconds: 60)
        }
        #expect(named > 50)
        #expect(try #require(apple.shortestInterval) >= 20 * 60)
        #expect(apple.renewals.count < 25)
    }

    @Test(
        "a restart with a clock that is an hour off makes no two renewals within 20 minutes",
        arguments: [3_600, -3_600] as [Int64])
    func restartHourWrong(_ jump: Int64) async throws {
        let key = try TestKeys.key()
        let hand = HandClock()
        let store = MemoryTokenStore()
        _ = try await Self.tokens(store, hand).token(for: key).get()
        hand.advance(seconds: 25 * 60)
        hand.jump(seconds: jump)
        let tokens = Self.tokens(store, hand)
        var minutes: [Int] = []
        for minute in 25..<90 {
            let token = try await tokens.token(for: key).get()
            _ = tokens.refused(token, of: key, reason: "InvalidProviderToken")
            _ = try await tokens.token(for: key).get()
            try await lookUntil { tokens.isIdle }
            while minutes.count < store.writes.count { minutes.append(minutes.isEmpty ? 0 : minute) }
            hand.advance(seconds: 60)
        }
        #expect(minutes.count >= 3)
        #expect(zip(minutes, minutes.dropFirst()).allSatisfy { $1 - $0 >= 20 }, "\(minutes)")
    }
}
