import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("A device's registration, when things overlap", .endsIfItHangs)
struct RegistrationTests {
    private func registration(
        _ transport: ScriptedTransport, _ storage: ClientStorage = .memory()
    ) -> (CampanileAPI, DeviceRegistration) {
        let api = CampanileAPI.scripted(transport)
        return (api, DeviceRegistration(api: api, storage: storage, environment: .sandbox, appVersion: nil, locale: nil))
    }

    @Test("a registration that fails is made again, also when the one before it succeeds in the meantime")
    func overlapping() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = ScriptedTransport { _, number in
            if number == 1 { for await _ in gate { break } }
            if number == 2 { throw URLError(.notConnectedToInternet) }
            return .json("{}", status: 201)
        }
        let (_, registration) = registration(transport)
        let first = Task { try await registration.register(Data([1])) }
        await transport.untilCalled()
        let second = Task { try await registration.register(Data([2])) }
        for _ in 0..<100 { await Task.yield() }
        open.yield()
        try await first.value
        await #expect(throws: ClientFailure.self) { try await second.value }
        try await registration.cameToForeground()
        try await registration.cameToForeground()
        #expect(transport.calls.count == 3)
        #expect(transport.calls.last?.body.flatMap { JSONValue(data: $0) }?["token"] == "02")
    }

    @Test("a sign-out owes no registration, also when one that was on its way fails behind it")
    func signOutOwesNothing() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = ScriptedTransport { call, _ in
            guard call.method == "POST" else { return HTTPAnswer(status: 204) }
            for await _ in gate { break }
            throw URLError(.notConnectedToInternet)
        }
        let (_, registration) = registration(transport)
        let first = Task { try await registration.register(Data([1])) }
        await transport.untilCalled()
        let leaving = Task { await registration.signOut(BadgeStore(storage: .memory())) }
        for _ in 0..<100 { await Task.yield() }
        open.yield()
        await #expect(throws: (any Error).self) { try await first.value }
        #expect(await leaving.value == .unregistered)
        try await registration.cameToForeground()
        #expect(transport.summary == ["POST /device_tokens", "DELETE /device_tokens/01"])
    }

    @Test("a token that comes during a sign-out, or after it, is registered for nobody but who signs in next")
    func tokenDuringSignOut() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = ScriptedTransport { call, _ in
            guard call.method == "DELETE" else { return .json("{}", status: 201) }
            for await _ in gate { break }
            return HTTPAnswer(status: 204)
        }
        let (_, registration) = registration(transport)
        try await registration.register(Data([1]))
        let leaving = Task { await registration.signOut(BadgeStore(storage: .memory())) }
        await transport.untilCalled(2)
        let registering = Task { try await registration.register(Data([2])) }
        for _ in 0..<100 { await Task.yield() }
        open.yield()
        #expect(await leaving.value == .unregistered)
        try await registering.value
        try await registration.register(Data([3]))
        #expect(transport.summary == ["POST /device_tokens", "DELETE /device_tokens/01"])
        try await registration.signedIn()
        #expect(transport.calls.last?.body.flatMap { JSONValue(data: $0) }?["token"] == "03")
    }

    @Test("a token of an earlier launch is neither registered nor named: in a restored backup it is another phone's")
    func restored() async throws {
        let transport = ScriptedTransport { _, _ in .json("{}", status: 201) }
        let storage = ClientStorage.memory()
        storage.write("device_token", "aa")
        let (api, registration) = registration(transport, storage)
        #expect(api.deviceToken == nil)
        try await registration.signedIn()
        try await registration.cameToForeground()
        #expect(transport.calls.isEmpty)
        try await registration.register(Data([0xBB]))
        #expect(transport.calls.map { $0.body.flatMap { JSONValue(data: $0) }?["token"] } == ["bb"])
    }

    @Test("a sign-out before the system gave the token in this launch deletes the one of the launch before")
    func signOutAtOnce() async throws {
        let transport = ScriptedTransport { _, _ in HTTPAnswer(status: 204) }
        let storage = ClientStorage.memory()
        storage.write("device_token", "aa")
        let (_, registration) = registration(transport, storage)
        #expect(await registration.signOut(BadgeStore(storage: .memory())) == .unregistered)
        #expect(transport.summary == ["DELETE /device_tokens/aa"])
    }

    @Test("Firebase's token of an iPhone is registered as it is, with who delivers to it")
    func firebase() async throws {
        let transport = ScriptedTransport { _, _ in .json("{}", status: 201) }
        let registration = DeviceRegistration(
            api: .scripted(transport), storage: .memory(), provider: .fcm, environment: .production, appVersion: nil, locale: nil)
        try await registration.register("fGx:APA91b_-")
        let body = transport.calls[0].body.flatMap { JSONValue(data: $0) }
        #expect(body?["token"] == "fGx:APA91b_-" && body?["platform"] == "ios" && body?["provider"] == "fcm")
    }
}
