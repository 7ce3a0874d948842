import Foundation
import TestSupport
import Testing

@testable import CampanileClient

/// Alice has read much lately, so her versions are newer than Bob's.
@Suite("Whose badge it is")
struct BadgeOwnerTests {
    private func alices(_ storage: ClientStorage = .memory()) -> BadgeStore {
        let store = BadgeStore(storage: storage)
        store.signedIn("alice")
        #expect(store.registered(in: store.session))
        store.apply(.of(3, 2_000))
        #expect(!store.registered(in: store.session))
        return store
    }

    @Test("after a sign-out nothing that was under way sets a number: no push, no stream, no answer")
    func signedOut() async throws {
        let store = alices()
        store.signedOut()
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_001)))
        #expect(!store.apply(.of(7, 2_001)))
        try await store.update { .of(7, 2_001) }
        store.clear()
        #expect(store.count == 0 && store.version == 0)
        #expect(store.number(onIconOf: PushPayload(badge: 7, badgeVersion: 2_001)) == nil)
    }

    @Test(
        "whoever signs in gets their own number although its version is older, with and without a sign-out before",
        arguments: [
            true, false,
        ])
    func nextUser(_ signsOut: Bool) async throws {
        let store = alices()
        if signsOut { store.signedOut() }
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_001)) || !signsOut)
        #expect(store.signedIn("bob"))
        #expect(store.count == 0)
        // Alice's, sent before the server knew that the device isn't hers any more.
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_002)))
        #expect(!store.apply(count: 7, version: 2_002))
        try await store.update { .of(1, 1_500) }
        #expect(store.count == 1 && store.version == 1_500)
        // The server couldn't be told yet whose the device is.
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_003)))
        #expect(store.registered(in: store.session))
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_004)))
        try await store.update { .of(1, 1_500) }
        #expect(store.apply(PushPayload(badge: 2, badgeVersion: 1_501)))
        #expect(store.count == 2)
    }

    @Test("the app is told of another user and of a sign-out, of who was there before, and of nothing else")
    func userChange() {
        let store = BadgeStore(storage: .memory())
        let heard = Locked<[UserChange]>([])
        let observation = store.onUserChange { change in heard.withLock { $0.append(change) } }
        #expect(store.user == nil)
        for user in ["alice", "alice"] { store.signedIn(user) }
        #expect(store.user == "alice")
        store.signedIn("bob")
        for _ in 1...2 { store.signedOut() }
        #expect(store.user == nil)
        store.signedIn("bob")
        store.apply(.of(3, 2_000))
        observation.cancel()
        store.signedOut()
        let expected: [(String?, String?)] = [(nil, "alice"), ("alice", "bob"), ("bob", nil), (nil, "bob")]
        #expect(heard.withLock { $0 } == expected.map { UserChange(former: $0.0, user: $0.1) })
    }

    @Test("an observer of the user may ask the store and change it, and is told of that too")
    func userChangeNests() {
        let store = BadgeStore(storage: .memory())
        let heard = Locked<[String?]>([])
        let observation = store.onUserChange { [weak store] change in
            heard.withLock { $0.append(store?.user) }
            if change.user == "alice" { store?.signedOut() }
        }
        store.signedIn("alice")
        #expect(heard.withLock { $0 } == ["alice", nil])
        observation.cancel()
    }

    @Test("a registration that was made for the former user lets no push of theirs count")
    func lateRegistration() async throws {
        let store = alices()
        let session = store.session
        store.signedIn("bob")
        #expect(!store.registered(in: session))
        try await store.update { .of(1, 1_500) }
        #expect(!store.apply(PushPayload(badge: 7, badgeVersion: 2_001)) && store.count == 1)
    }

    @Test("who signs in again, or is named again by a page, keeps the number, over launches too")
    func sameUser() {
        let storage = ClientStorage.memory()
        let store = alices(storage)
        #expect(!store.signedIn("alice"))
        let launched = BadgeStore(storage: storage)
        #expect(!launched.signedIn("alice"))
        #expect(launched.count == 3 && launched.apply(PushPayload(badge: 4, badgeVersion: 2_001)))
        #expect(launched.signedIn("bob") && store.count == 0)
    }

    @Test("the same user at another server is somebody else: their versions there may be older")
    func otherServer() async throws {
        let storage = ClientStorage.memory()
        let store = BadgeStore(storage: storage)
        func registration(_ server: String, _ version: Int) -> DeviceRegistration {
            let transport = ScriptedTransport { call, _ in
                call.method == "GET" ? .badge(1, version: version) : .json("{}", status: 201)
            }
            let api = CampanileAPI(
                baseURL: .example(server), userAgent: "Example/1", transport: transport, userToken: { _ in "jwt" })
            return DeviceRegistration(api: api, storage: storage, environment: .sandbox, appVersion: nil, locale: nil)
        }
        for (server, version) in [("https://push.example.com", 2_000), ("https://staging.example.com", 1_500)] {
            let registration = registration(server, version)
            try await registration.register("01")
            try await registration.signedIn("alice", store)
            #expect(store.version == version)
            try await registration.signedIn("alice", store)
            #expect(store.version == version)
        }
    }

    @Test("a number from before anyone said whose it is isn't the first user's who signs in")
    func unknownOwner() {
        let store = BadgeStore(storage: .memory())
        #expect(store.apply(count: 5, version: 10))
        #expect(store.signedIn("alice") && store.count == 0)
    }

    @Test("an answer that another user asked for isn't taken, wherever the change of user fell")
    func lateAnswer() async throws {
        let store = alices()
        try await store.update {
            store.signedIn("bob")
            return .of(7, 2_001)
        }
        #expect(store.count == 0)
        try await store.update {
            store.signedOut()
            store.signedIn("bob")
            return .of(7, 2_001)
        }
        #expect(store.count == 0 && store.version == 0)
    }

    @Test("a stream that goes on after a change of user sets nothing, and the loop ends")
    func stream() async throws {
        let store = alices()
        let (numbers, end) = AsyncStream.makeStream(of: Badge.self)
        let following = Task { try await store.follow(numbers) }
        end.yield(.of(4, 2_001))
        try await lookUntil { store.count == 4 }
        store.signedIn("bob")
        try await store.update { .of(1, 1_500) }
        end.yield(.of(7, 2_002))
        try await following.value
        #expect(store.count == 1 && store.version == 1_500)
    }

    @Test("an owed clearing isn't made up for with the next user's badge")
    func owedClearing() async throws {
        let transport = ScriptedTransport { call, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return .badge(2, version: 1_500)
        }
        let api = CampanileAPI.scripted(transport)
        let store = alices()
        await #expect(throws: ClientFailure.self) { try await store.clear(api) }
        store.signedIn("bob")
        try await store.refresh(api)
        #expect(transport.summary == ["DELETE /badge", "GET /badge"] && store.count == 2)
    }

    @Test("after a sign-out no clearing is sent: it would be the next user's")
    func clearingSignedOut() async throws {
        let transport = ScriptedTransport { _, _ in .badge(0, version: 1) }
        let store = alices()
        store.signedOut()
        try await store.clear(.scripted(transport))
        #expect(transport.calls.isEmpty)
    }

    @Test("the answer to a clearing of the former user changes nothing")
    func lateClearing() async throws {
        let store = alices()
        let transport = ScriptedTransport { _, _ in
            store.signedIn("bob")
            store.apply(.of(2, 1_500))
            return .badge(0, version: 2_001)
        }
        try await store.clear(.scripted(transport))
        #expect(store.count == 2 && store.version == 1_500)
    }
}

@Suite("A clearing that the server must be told")
struct BadgeClearingTests {
    @Test("a number that the backend gives is shown again after the server refused to clear it, and no clearing is owed")
    func given() async throws {
        let transport = ScriptedTransport { call, _ in
            call.method == "GET" ? .badge(7, version: 20) : .problem(409, "badge_is_given")
        }
        let store = BadgeStore(storage: .memory())
        store.signedIn("alice")
        store.apply(.of(7, 20))
        try await store.clear(.scripted(transport))
        #expect(store.count == 7 && store.version == 20)
        try await store.refresh(.scripted(transport))
        #expect(transport.summary == ["DELETE /badge", "GET /badge", "GET /badge"])
    }

    @Test("one that didn't reach the server is made up for, over a launch, if nothing has changed there since")
    func madeUp() async throws {
        let transport = ScriptedTransport { call, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return call.method == "GET" ? .badge(3, version: 20) : .badge(0, version: 21)
        }
        let api = CampanileAPI.scripted(transport)
        let storage = ClientStorage.memory()
        let store = BadgeStore(storage: storage)
        store.apply(count: 3, version: 20)
        await #expect(throws: ClientFailure.self) { try await store.clear(api) }
        #expect(store.count == 0)
        let launched = BadgeStore(storage: storage)
        try await launched.refresh(api)
        #expect(transport.summary == ["DELETE /badge", "GET /badge", "DELETE /badge"])
        #expect(launched.count == 0 && launched.version == 21)
        try await launched.refresh(api)
        #expect(transport.summary.last == "GET /badge" && launched.count == 0)
    }

    @Test(
        "one is not made up for once something came that the user hasn't seen: an answer's, or a push's",
        arguments: [true, false])
    func changedSince(_ isPushed: Bool) async throws {
        let transport = ScriptedTransport { _, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return .badge(4, version: 22)
        }
        let api = CampanileAPI.scripted(transport)
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 20)
        await #expect(throws: ClientFailure.self) { try await store.clear(api) }
        if isPushed { store.apply(PushPayload(badge: 4, badgeVersion: 22)) }
        try await store.refresh(api)
        #expect(transport.summary == ["DELETE /badge", "GET /badge"] && store.count == 4)
    }

    @Test("while one is under way a refresh doesn't send another, and its older answer doesn't bring the number back")
    func underWay() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = ScriptedTransport { call, _ in
            guard call.method == "DELETE" else { return .badge(3, version: 20) }
            for await _ in gate { break }
            return .badge(0, version: 21)
        }
        let api = CampanileAPI.scripted(transport)
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 20)
        let clearing = Task { try await store.clear(api) }
        await transport.untilCalled()
        try await store.refresh(api)
        #expect(transport.summary == ["DELETE /badge", "GET /badge"] && store.count == 0)
        open.yield()
        try await clearing.value
        #expect(store.count == 0 && store.version == 21)
    }

    @Test("its own answer counts although the version is the cleared one, and ends what is owed")
    func sameVersion() async throws {
        let transport = ScriptedTransport { _, _ in .badge(0, version: 20) }
        let api = CampanileAPI.scripted(transport)
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 20)
        try await store.clear(api)
        try await store.refresh(api)
        #expect(transport.summary == ["DELETE /badge", "GET /badge"] && store.count == 0)
    }

    @Test("a failed one isn't simply sent again, because by then it would clear what nobody has seen")
    func notRepeated() async {
        let transport = ScriptedTransport { _, _ in .problem(503, "unavailable") }
        let api = CampanileAPI.scripted(transport, retry: Waits().policy())
        await #expect(throws: ClientFailure.self) { try await api.clearBadge() }
        #expect(transport.calls.count == 1)
    }
}

@Suite("A badge that an app and its extension share")
struct BadgeStorageTests {
    private func withFolder(_ body: (URL) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("badge-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder)
    }

    /// Every store's storage opens the files by itself, as another process does.
    @Test("stores that write at the same moment never end with the older number")
    func atomic() async throws {
        try await withFolder { folder in
            for round in 0..<20 {
                let shared = folder.appendingPathComponent("\(round)")
                let stores = (0..<3).map { _ in BadgeStore(storage: .files(in: shared)) }
                await withTaskGroup(of: Void.self) { group in
                    for (index, store) in stores.enumerated() {
                        group.addTask {
                            for step in 0..<10 {
                                let version = Int64(step * 3 + index + 1)
                                store.apply(count: version, version: version)
                            }
                        }
                    }
                }
                #expect(stores.allSatisfy { $0.count == 30 && $0.version == 30 }, "round \(round)")
            }
        }
    }

    @Test("stores of one storage in memory are as exact")
    func memory() async {
        for round in 0..<200 {
            let storage = ClientStorage.memory()
            let stores = [BadgeStore(storage: storage), BadgeStore(storage: storage)]
            await withTaskGroup(of: Void.self) { group in
                for (index, store) in stores.enumerated() {
                    group.addTask {
                        for step in 0..<10 { store.apply(count: 1, version: Int64(step * 2 + index + 1)) }
                    }
                }
            }
            #expect(stores[0].version == 20, "round \(round)")
        }
    }

    @Test("what one took, the other knows, also after a start; and that the user has signed out")
    func shared() async throws {
        try await withFolder { folder in
            let app = BadgeStore(storage: .files(in: folder))
            let serviceExtension = BadgeStore(storage: .files(in: folder))
            #expect(serviceExtension.apply(count: 5, version: 8))
            #expect(app.count == 5 && !app.apply(count: 4, version: 7))
            #expect(BadgeStore(storage: .files(in: folder)).count == 5)
            app.signedOut()
            #expect(!serviceExtension.apply(count: 6, version: 9) && serviceExtension.count == 0)
        }
    }

    @Test("an alert's number on the icon is the newest that any of them has seen; a 0 is left out")
    func onIcon() {
        let store = BadgeStore(storage: .memory())
        #expect(store.number(onIconOf: PushPayload(badge: 5, badgeVersion: 10)) == 5)
        #expect(store.number(onIconOf: PushPayload(badge: 4, badgeVersion: 9)) == 5)
        #expect(store.number(onIconOf: PushPayload()) == 5)
        #expect(store.number(onIconOf: PushPayload(badgeVersion: 11)) == nil)
    }

    @Test("a key in a folder is kept, replaced and removed; a folder that can't be made loses it and nothing else")
    func files() async throws {
        try await withFolder { folder in
            let storage = ClientStorage.files(in: folder.appendingPathComponent("a/b"))
            #expect(storage.read("key") == nil)
            storage.write("key", "één")
            #expect(ClientStorage.files(in: folder.appendingPathComponent("a/b")).read("key") == "één")
            storage.write("key", nil)
            #expect(storage.read("key") == nil)
            try Data().write(to: folder.appendingPathComponent("file"))
            let store = BadgeStore(storage: .files(in: folder.appendingPathComponent("file/below")))
            store.apply(count: 1, version: 1)
            #expect(store.count == 0)
        }
    }
}

extension Badge {
    static func of(_ count: Int64, _ version: Int64) -> Badge {
        Badge(count: count, unreadCount: count, version: version, updatedAt: nil)
    }
}
