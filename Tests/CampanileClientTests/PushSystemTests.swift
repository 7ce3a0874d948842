import Foundation
import TestSupport
import Testing

@testable import CampanileClient

/// The calls that `start`, `signOutOfDevice` and `signedInOnDevice` make of iOS.
@Suite("A device's pushes and iOS")
@MainActor
struct PushSystemTests {
    private let asked = Watched<[String]>([])
    private let storage = ClientStorage.memory()

    private func system() -> PushSystem {
        let asked = asked
        return PushSystem(
            register: { asked.change { $0.append("register") } },
            unregister: { asked.change { $0.append("unregister") } },
            removeDelivered: { asked.change { $0.append("remove") } })
    }

    private func registration(_ script: @escaping ScriptedTransport.Script) async throws -> DeviceRegistration {
        let registration = DeviceRegistration(
            api: .scripted(ScriptedTransport(script)), storage: storage, environment: .sandbox, appVersion: nil, locale: nil)
        try await registration.register("0102")
        return registration
    }

    private func take() -> [String] {
        asked.change { asked in
            defer { asked = [] }
            return asked
        }
    }

    @Test("a launch asks for the token")
    func start() async throws {
        let registration = try await registration { _, _ in .json("{}", status: 201) }
        await registration.start(system())
        #expect(take() == ["register"])
    }

    @Test("after a sign-out that the server couldn't be told of, launches ask for no token until somebody signs in")
    func offlineSignOut() async throws {
        let badge = BadgeStore(storage: storage)
        badge.signedIn("alice")
        let registration = try await registration { call, _ in
            if call.method == "DELETE" { throw URLError(.notConnectedToInternet) }
            return call.method == "GET" ? .badge(1, version: 5) : .json("{}", status: 201)
        }
        guard case .stillRegistered = await registration.signOut(badge, of: system()) else {
            Issue.record("It wasn't said.")
            return
        }
        #expect(take() == ["remove", "unregister", "remove"])
        // The next launch.
        let launched = DeviceRegistration(
            api: .scripted(
                ScriptedTransport { call, _ in
                    call.method == "GET" ? .badge(1, version: 5) : .json("{}", status: 201)
                }), storage: storage, environment: .sandbox, appVersion: nil, locale: nil)
        await launched.start(system())
        #expect(take() == ["unregister"])
        try await launched.signedIn("bob", badge, on: system())
        #expect(take() == ["remove", "register"])
        await launched.start(system())
        #expect(take() == ["register"])
        try await launched.signedIn("bob", badge, on: system())
        #expect(take() == ["register"])
    }

    @Test("after a sign-out that the server knows of, iOS goes on taking pushes, for whoever comes next")
    func signOut() async throws {
        let badge = BadgeStore(storage: storage)
        let registration = try await registration { _, _ in .json("{}", status: 201) }
        #expect(await registration.signOut(badge, of: system()) == .unregistered)
        await registration.start(system())
        #expect(take() == ["remove", "remove", "register"])
    }

    @Test("a sign-out that the app didn't live to end is ended by the next launch: iOS takes no pushes of who has left")
    func endedByLaunch() async throws {
        let registration = try await registration { call, _ in
            if call.method == "DELETE" { try await Task.sleep(for: .seconds(3_600)) }
            return .json("{}", status: 201)
        }
        let badge = BadgeStore(storage: storage)
        let signingOut = Task { await registration.signOut(badge, of: system()) }
        try await lookUntil { await registration.isLeft }
        // As far as the app came.
        #expect(take() == ["remove"])
        let launched = DeviceRegistration(
            api: .scripted(ScriptedTransport(), token: { _ in nil }), storage: storage, environment: .sandbox, appVersion: nil,
            locale: nil)
        await launched.start(system())
        #expect(take() == ["unregister"])
        signingOut.cancel()
        _ = await signingOut.value
    }

    @Test("what the user is sent while the server is told of the sign-out leaves the screen too")
    func pushedMeanwhile() async throws {
        let asked = asked
        let registration = try await registration { call, _ in
            if call.method == "DELETE" { asked.change { $0.append("pushed") } }
            return .json("{}", status: 201)
        }
        #expect(await registration.signOut(BadgeStore(storage: storage), of: system()) == .unregistered)
        #expect(take() == ["remove", "pushed", "remove"])
    }

    @Test(
        "pushes set the next user's number once the device is theirs at the server, which is asked for it then; failures are made up for"
    )
    func registered() async throws {
        let isDown = Locked(true)
        let transport = ScriptedTransport { call, _ in
            if isDown.withLock({ $0 }), call.method == "POST" { throw URLError(.timedOut) }
            return call.method == "POST" ? .json("{}", status: 201) : .badge(1, version: 1_500)
        }
        let registration = DeviceRegistration(
            api: .scripted(transport), storage: storage, environment: .sandbox, appVersion: nil, locale: nil)
        let badge = BadgeStore(storage: storage)
        await #expect(throws: ClientFailure.self) { try await registration.register("0102") }
        await #expect(throws: ClientFailure.self) { try await registration.signedIn("bob", badge) }
        try await badge.refresh(.scripted(transport))
        #expect(!badge.apply(PushPayload(badge: 7, badgeVersion: 2_001)) && badge.count == 1)
        isDown.withLock { $0 = false }
        try await registration.cameToForeground()
        #expect(transport.summary.suffix(2) == ["POST /device_tokens", "GET /badge"])
        #expect(badge.apply(PushPayload(badge: 2, badgeVersion: 1_501)) && badge.count == 2)
        try await registration.signedIn("bob", badge)
        #expect(transport.summary.last == "POST /device_tokens")
    }

    @Test("a slow sign-out takes nothing from whoever signs in meanwhile: not the number, not the pushes")
    func slowSignOut() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let leaving = Watched(false)
        let badge = BadgeStore(storage: storage)
        badge.signedIn("alice")
        let registration = try await registration { call, _ in
            guard call.method == "DELETE" else {
                return call.method == "GET" ? .badge(1, version: 10) : .json("{}", status: 201)
            }
            leaving.change { $0 = true }
            for await _ in gate { break }
            throw URLError(.timedOut)
        }
        let signingOut = Task { await registration.signOut(badge, of: system()) }
        await leaving.until { $0 }
        let signingIn = Task { try await registration.signedIn("bob", badge, on: system()) }
        await asked.until { $0.contains("register") }
        badge.apply(.of(1, 10))
        try await lookUntil { await !registration.isLeft }
        open.yield()
        _ = await signingOut.value
        try await signingIn.value
        #expect(badge.count == 1 && !take().contains("unregister"))
    }
}
