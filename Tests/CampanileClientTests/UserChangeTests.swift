import Foundation
import TestSupport
import Testing

@testable import CampanileClient

/// The token of whoever is signed in, which a test changes.
private final class SignedIn: Sendable {
    private let token: Locked<String?>

    init(_ token: String?) { self.token = Locked(token) }

    var value: String? {
        get { token.withLock { $0 } }
        set { token.withLock { $0 = newValue } }
    }
}

private let alice = String.userToken("alice", issuedAt: 100)
private let bob = String.userToken("bob", issuedAt: 200)

extension ScriptedTransport {
    /// Whose each call was.
    fileprivate var bearers: [String] {
        calls.map { call in
            let token = call.headers["Authorization"]
            return token == "Bearer " + alice ? "alice" : token == "Bearer " + bob ? "bob" : token ?? "nobody"
        }
    }
}

@Suite("A user who leaves while something is under way", .endsIfItHangs)
struct UserChangeTests {
    private static func badge(_ count: Int) -> String {
        "id: \(count)\nevent: badge\ndata: {\"count\":\(count),\"unread_count\":\(count),\"version\":\(count)}\n\n"
    }

    private func registration(_ api: CampanileAPI) -> DeviceRegistration {
        DeviceRegistration(api: api, storage: .memory(), environment: .sandbox, appVersion: nil, locale: nil)
    }

    @Test("a call isn't tried again as somebody else: it is called off")
    func retry() async {
        let user = SignedIn(alice)
        let transport = ScriptedTransport { _, _ in
            user.value = bob
            throw URLError(.timedOut)
        }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy()) { _ in user.value }
        await #expect(throws: CancellationError.self) { try await api.markAllRead(upTo: "n1") }
        #expect(transport.bearers == ["alice"])
    }

    @Test("a refused token isn't replaced by somebody else's")
    func refused() async {
        let transport = ScriptedTransport { _, _ in .problem(401, "unauthorized") }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy()) { $0 == nil ? alice : bob }
        await #expect(throws: CancellationError.self) { try await api.clearBadge() }
        #expect(transport.bearers == ["alice"])
    }

    @Test("the same user's fresh token goes on with the call")
    func freshToken() async throws {
        let fresh = String.userToken("alice", issuedAt: 300)
        let transport = ScriptedTransport { call, number in
            if number == 1 { throw URLError(.timedOut) }
            return call.headers["Authorization"] == "Bearer " + fresh ? .badge(1, version: 1) : .problem(401, "unauthorized")
        }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy()) { $0 == nil ? alice : fresh }
        #expect(try await api.badge().count == 1)
        #expect(transport.calls.count == 3)
    }

    @Test("who has signed out is tried again for no more, and an answer that comes later isn't told")
    func signedOut() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = ScriptedTransport { call, _ in
            if call.method == "GET" { for await _ in gate { break } }
            return call.method == "GET" ? .badge(7, version: 7) : HTTPAnswer(status: 204)
        }
        let api = CampanileAPI.scripted(transport) { _ in alice }
        let registration = registration(api)
        try await registration.register(Data([1]))
        let asking = Task { try await api.badge() }
        await transport.untilCalled(2)
        _ = await registration.signOut(BadgeStore(storage: .memory()))
        open.yield()
        await #expect(throws: CancellationError.self) { try await asking.value }
    }

    @Test("a clearing that is made up isn't made for somebody else whose token comes meanwhile")
    func lateClearing() async {
        let user = SignedIn(alice)
        let transport = ScriptedTransport { call, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            user.value = bob
            return call.method == "GET" ? .badge(3, version: 20) : .badge(0, version: 21)
        }
        let api = CampanileAPI.scripted(transport) { _ in user.value }
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 20)
        await #expect(throws: ClientFailure.self) { try await store.clear(api) }
        await #expect(throws: CancellationError.self) { try await store.refresh(api) }
        #expect(transport.summary == ["DELETE /badge", "GET /badge"])
    }

    @Test("a list isn't gone on with as somebody else, nor once its user has signed out", arguments: [true, false])
    func pages(_ signsOut: Bool) async throws {
        let user = SignedIn(alice)
        let transport = ScriptedTransport { call, _ in
            if call.method == "DELETE" { return HTTPAnswer(status: 204) }
            return .json(#"{"notifications":[],"next_cursor":"c","badge":{"count":0,"unread_count":0,"version":0}}"#)
        }
        let api = CampanileAPI.scripted(transport) { _ in user.value }
        var pages = api.notifications().makeAsyncIterator()
        #expect(try await pages.next() != nil)
        if signsOut { _ = await registration(api).signOut(BadgeStore(storage: .memory())) } else { user.value = bob }
        await #expect(throws: CancellationError.self) { try await pages.next() }
        #expect(transport.bearers == ["alice"])
    }

    @Test("a stream isn't made again as somebody else")
    func stream() async {
        let user = SignedIn(alice)
        let transport = ScriptedTransport(streams: { _, number in
            user.value = bob
            return number == 1 ? .events([Self.badge(1)]) : .events([], status: 404)
        })
        let api = CampanileAPI.scripted(transport, retry: Waits().policy()) { _ in user.value }
        var counts: [Int64] = []
        await #expect(throws: CancellationError.self) {
            for try await badge in api.badges() { counts.append(badge.count) }
        }
        #expect(counts == [1] && transport.bearers == ["alice"])
    }

    @Test("what comes on a stream after its user's sign-out isn't told")
    func openStream() async throws {
        let (body, pieces) = AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self)
        let transport = ScriptedTransport(
            { _, _ in HTTPAnswer(status: 204) }, streams: { _, _ in HTTPStream(status: 200, body: body) })
        let api = CampanileAPI.scripted(transport) { _ in alice }
        var badges = api.badges().makeAsyncIterator()
        pieces.yield(Data((Self.badge(1) + Self.badge(2)).utf8))
        #expect(try await badges.next()?.count == 1)
        _ = await registration(api).signOut(BadgeStore(storage: .memory()))
        pieces.yield(Data(Self.badge(3).utf8))
        await #expect(throws: CancellationError.self) { try await badges.next() }
        #expect(try await badges.next() == nil)
    }

    @Test("one user's open stream ends when another registers without a sign-out, and the other's own goes on")
    func otherUser() async throws {
        let user = SignedIn(alice)
        let streams = (0..<2).map { _ in AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self) }
        let bodies = streams.map(\.stream)
        let transport = ScriptedTransport(
            { _, _ in .json("{}", status: 201) },
            streams: { call, _ in
                let isHers = call.headers["Authorization"] == "Bearer " + alice
                return HTTPStream(status: 200, body: bodies[isHers ? 0 : 1])
            })
        let api = CampanileAPI.scripted(transport) { _ in user.value }
        let registration = registration(api)
        try await registration.register(Data([1]))
        var hers = api.badges().makeAsyncIterator()
        streams[0].continuation.yield(Data(Self.badge(1).utf8))
        #expect(try await hers.next()?.count == 1)
        user.value = bob
        var his = api.badges().makeAsyncIterator()
        streams[1].continuation.yield(Data(Self.badge(4).utf8))
        #expect(try await his.next()?.count == 4)
        try await registration.signedIn()
        streams[0].continuation.yield(Data(Self.badge(2).utf8))
        await #expect(throws: CancellationError.self) { try await hers.next() }
        streams[1].continuation.yield(Data(Self.badge(5).utf8))
        #expect(try await his.next()?.count == 5)
    }
}

@Suite("Tokens that pages hand over", .endsIfItHangs)
struct HandedUserTokenTests {
    private let never: @Sendable (Duration) async throws -> Void = { _ in try await Task.sleep(for: .seconds(600)) }

    @Test("who waits for a fresh token isn't woken by a page from before")
    func stale() async {
        let handed = HandedUserToken(sleep: never)
        await handed.hand(.userToken("alice", issuedAt: 200))
        let waiting = Task { await handed.token(refused: .userToken("alice", issuedAt: 200)) }
        for _ in 0..<100 { await Task.yield() }
        await handed.hand(.userToken("alice", issuedAt: 200))
        await handed.hand(.userToken("alice", issuedAt: 100))
        for _ in 0..<100 { await Task.yield() }
        await handed.hand(.userToken("alice", issuedAt: 300))
        #expect(await waiting.value == .userToken("alice", issuedAt: 300))
    }

    @Test("a page from before doesn't replace a fresher token; without the time of issue the later end is the fresher one")
    func fresher() async {
        for (old, new) in [
            (String.userToken("alice", issuedAt: 100, expiresAt: 5_000), String.userToken("alice", issuedAt: 200)),
            (.userToken("alice", expiresAt: 900), .userToken("alice", expiresAt: 1_000)),
        ] {
            let handed = HandedUserToken(sleep: never)
            await handed.hand(new)
            await handed.hand(old)
            #expect(await handed.token(refused: nil) == new)
        }
    }

    @Test("a refused token isn't given again, nor taken again")
    func refused() async {
        let handed = HandedUserToken { _ in }
        await handed.hand("one")
        #expect(await handed.token(refused: "one") == nil)
        #expect(await handed.token(refused: nil) == nil)
        await handed.hand("one")
        #expect(await handed.token(refused: nil) == nil)
        await handed.hand("two")
        #expect(await handed.token(refused: "one") == "two")
    }

    @Test("another user's token is taken, whatever its end, unless it is of a page from before")
    func otherUser() async {
        let handed = HandedUserToken(sleep: never)
        await handed.hand(.userToken("alice", issuedAt: 100, expiresAt: 5_000))
        await handed.hand(bob)
        #expect(await handed.token(refused: nil) == bob)
        await handed.hand(alice)
        #expect(await handed.token(refused: nil) == bob)
    }

    @Test("who waited as one user isn't given the token of the next, and who asks then is")
    func waitedAsAnother() async {
        let isWaiting = Watched(false)
        let handed = HandedUserToken { [never] patience in
            isWaiting.change { $0 = true }
            try await never(patience)
        }
        await handed.hand(alice)
        let waiting = Task { await handed.token(refused: alice) }
        await isWaiting.until { $0 }
        await handed.hand(bob)
        #expect(await waiting.value == nil)
        #expect(await handed.token(refused: nil) == bob)
    }

    @Test("after a sign-out a page from before signs nobody in again, and a new one does")
    func signedOut() async {
        let handed = HandedUserToken(sleep: never)
        await handed.hand(alice)
        await handed.hand(nil)
        await handed.hand(alice)
        #expect(await !handed.hand(.userToken("alice", issuedAt: 50)))
        #expect(await handed.token(refused: nil) == nil)
        await handed.hand(.userToken("alice", issuedAt: 101))
        #expect(await handed.token(refused: nil) == .userToken("alice", issuedAt: 101))
    }

    @Test("the end of one user's session leaves the token of the next one alone, and takes away the user's own")
    func slowSignOut() async {
        let handed = HandedUserToken(sleep: never)
        await handed.hand(alice)
        await handed.hand(bob)
        await handed.signedOut("alice")
        #expect(await handed.token(refused: nil) == bob)
        await handed.signedOut("bob")
        #expect(await handed.token(refused: nil) == nil)
    }
}
