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
        let cache = PrincipalCache(capacity: 10)
        cache.remember(principal(), for: token, until: Timestamp(milliseconds: 2_000), generation: cache.generation)
        #expect(find(cache, token, now: now))
        #expect(!find(cache, token, now: Timestamp(milliseconds: 2_000)))
        #expect(!find(cache, Array("cmp_abd".utf8), now: now))
    }

    @Test("a key that was looked up before a revocation is not remembered after it")
    func revokedMeanwhile() {
        let cache = PrincipalCache(capacity: 10)
        let generation = cache.generation
        cache.forgetAll()
        cache.remember(principal(), for: token, until: Timestamp(milliseconds: 2_000), generation: generation)
        #expect(!find(cache, token, now: now))
    }
}
