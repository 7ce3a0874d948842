import Foundation
import Testing

@testable import CampanileClient

/// What `start`, `signOutOfDevice` and `signedInOnDevice` ask of iOS.
@Suite("A device's pushes and iOS")
@MainActor
struct PushSystemTests {
    private let asked = Locked<[String]>([])
    private let storage = ClientStorage.memory()

    private func system(_ permission: @escaping @Sendable () throws -> Bool = { true }) -> PushSystem {
        let asked = asked
        return PushSystem(
            requestAuthorization: {
                asked.withLock { $0.append("permission") }
                return try permission()
            },
            register: { asked.withLock { $0.append("register") } },
            unregister: { asked.withLock { $0.append("unregister") } },
            removeDelivered: { asked.withLock { $0.append("remove") } })
    }

    private func registration(_ script: @escaping ScriptedTransport.Script) async throws -> DeviceRegistration {
        let registration = DeviceRegistration(
            api: .scripted(ScriptedTransport(script)), storage: storage, environment: .sandbox, appVersion: nil, locale: nil)
        try await registration.register("0102")
        return registration
    }

    private func take() -> [String] {
        asked.withLock { asked in
            defer { asked = [] }
            return asked
        }
    }

    @Test("a launch asks for the token whatever the user says of alerts, and when asking them failed")
    func start() async throws {
        let registration = try await registration { _, _ in .json("{}", status: 201) }
        #expect(try await registration.start(system { false }) == false)
        #expect(take() == ["register", "permission"])
        await #expect(throws: URLError.self) { try await registration.start(system { throw URLError(.unknown) }) }
        #expect(take() == ["register", "permission"])
    }

    @Test("after a sign-out that the server couldn't be told of, launches ask for no token until somebody signs in")
    func offlineSignOut() async throws {
        let badge = BadgeStore(storage: storage)
        badge.signedIn("alice")
        let registration = try await registration { call, _ in
            if call.method == "DELETE" { throw URLError(.notConnectedToInternet) }
            return .json("{}", status: 201)
        }
        guard case .stillRegistered = await registration.signOut(badge, of: system()) else {
            Issue.record("It wasn't said.")
            return
        }
        #expect(take() == ["remove", "unregister"])
        // The next launch.
        let launched = DeviceRegistration(
            api: .scripted(ScriptedTransport { _, _ in .json("{}", status: 201) }), storage: storage, environment: .sandbox,
            appVersion: nil, locale: nil)
        _ = try await launched.start(system())
        #expect(take() == ["permission"])
        try await launched.signedIn("bob", badge, on: system())
        #expect(take() == ["remove", "register"])
        _ = try await launched.start(system())
        #expect(take() == ["register", "permission"])
        try await launched.signedIn("bob", badge, on: system())
        #expect(take() == ["register"])
    }

    @Test("after a sign-out that the server knows of, iOS goes on taking pushes, for whoever comes next")
    func signOut() async throws {
        let badge = BadgeStore(storage: storage)
        let registration = try await registration { _, _ in .json("{}", status: 201) }
        #expect(await registration.signOut(badge, of: system()) == .unregistered)
        _ = try await registration.start(system())
        #expect(take() == ["remove", "register", "permission"])
    }

    @Test("a slow sign-out takes nothing from whoever signs in meanwhile: not the number, not the pushes")
    func slowSignOut() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let leaving = Locked(false)
        let badge = BadgeStore(storage: storage)
        badge.signedIn("alice")
        let registration = try await registration { call, _ in
            guard call.method == "DELETE" else { return .json("{}", status: 201) }
            leaving.withLock { $0 = true }
            for await _ in gate { break }
            throw URLError(.timedOut)
        }
        let signingOut = Task { await registration.signOut(badge, of: system()) }
        while !leaving.withLock({ $0 }) { await Task.yield() }
        let signingIn = Task { try await registration.signedIn("bob", badge, on: system()) }
        while !asked.withLock({ $0.contains("register") }) { await Task.yield() }
        badge.apply(.of(1, 10))
        while await registration.isLeft { await Task.yield() }
        open.yield()
        _ = await signingOut.value
        try await signingIn.value
        #expect(badge.count == 1 && !take().contains("unregister"))
    }
}
