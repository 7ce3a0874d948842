import CampanileCore
import Testing

@testable import CampanileServer

@Suite struct PrincipalCacheTests {
    private let token = Array("cmp_abc".utf8)
    private let now = Timestamp(milliseconds: 1_000)

    private func find(_ cache: PrincipalCache, _ token: [UInt8], now: Timestamp) -> Bool {
        token.withUnsafeBytes { cache.principal(for: $0, now: now) != nil }
    }

    private func principal() -> Principal { .user(User(app: "default", userID: "alice")) }

    @Test("a token is remembered until it expires, and only that token")
    func remembers() {
        let cache = PrincipalCache(capacity: 10, bytes: 1_000)
        cache.remember(principal(), for: token, until: Timestamp(milliseconds: 2_000), generation: cache.generation)
        #expect(find(cache, token, now: now))
        #expect(!find(cache, token, now: Timestamp(milliseconds: 2_000)))
        #expect(!find(cache, Array("cmp_abd".utf8), now: now))
    }

    @Test("what is remembered is bounded in bytes as well as in number, and counts a token once")
    func bounded() {
        let tokens = (0..<4).map { Array(repeating: UInt8(ascii: "a") + $0, count: 100) }
        let until = Timestamp(milliseconds: 2_000)
        func remembered(_ capacity: Int, bytes: Int, _ tokens: [[UInt8]]) -> [Bool] {
            let cache = PrincipalCache(capacity: capacity, bytes: bytes)
            for token in tokens { cache.remember(principal(), for: token, until: until, generation: cache.generation) }
            return tokens.map { find(cache, $0, now: now) }
        }
        #expect(remembered(10, bytes: 400, tokens) == [true, true, true, true])
        #expect(remembered(10, bytes: 399, tokens) == [false, false, false, true])
        #expect(remembered(3, bytes: 400, tokens) == [false, false, false, true])
        #expect(remembered(10, bytes: 200, [tokens[0], tokens[1], tokens[1], tokens[1]]) == [true, true, true, true])
        #expect(remembered(10, bytes: 99, [tokens[0]]) == [false], "one that is larger than all there is")
    }

    @Test("after everything was forgotten there is room for as many bytes again")
    func forgotten() {
        let cache = PrincipalCache(capacity: 10, bytes: 14)
        for _ in 0..<3 {
            for token in ["cmp_abc", "cmp_abd"].map({ Array($0.utf8) }) {
                cache.remember(principal(), for: token, until: Timestamp(milliseconds: 2_000), generation: cache.generation)
            }
            #expect(find(cache, token, now: now))
            cache.forgetAll()
        }
    }

    @Test("a key that was looked up before a revocation is not remembered after it")
    func revokedMeanwhile() {
        let cache = PrincipalCache(capacity: 10, bytes: 1_000)
        let generation = cache.generation
        cache.forgetAll()
        cache.remember(principal(), for: token, until: Timestamp(milliseconds: 2_000), generation: generation)
        #expect(!find(cache, token, now: now))
    }
}
