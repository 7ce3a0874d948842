import CampanileClient
import Foundation
import PushSimulator
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// The screens of an app, as words.
@MainActor
private final class Screens: PushScreens, DeepLinkCoordinator {
    var isShowingInbox = false
    var shown: [String] = []
    let router: DeepLinkRouter<Screens>

    init(_ tree: DeepLinkTree) { router = DeepLinkRouter(tree, [Ranking.self]) }

    func showInbox() -> Bool {
        isShowingInbox = true
        shown.append("inbox")
        return true
    }

    func open(_ payload: PushPayload) {
        do {
            try router.chain(payload)?.open(in: self)
        } catch {
            shown.append(error.description)
        }
    }

    func prepareForDeepLink() {}
    func show(_ page: DeepLinkPage, animated: Bool) { shown.append(page.title ?? page.address) }
}

private struct Ranking: DeepLinkScreen {
    static let path = "home/soptamp/current-generation-ranking"
    let generation: Int
    init(_ values: DeepLinkValues) throws { generation = try values.query("currentGeneration") }
    func show(in coordinator: Screens, animated: Bool) { coordinator.shown.append("Ranking \(generation)") }
}

/// The whole way: a producer's call, the delivery worker, Apple's payload as the simulator took it, and the app that is tapped.
@Suite("A push on its way into an app", .serialized, .endsIfItHangs)
struct ClientPushTests {
    private static let tree = DeepLinkTree([
        .init(
            "home", title: "Home",
            children: [
                .init(
                    "soptamp", title: "Soptamp",
                    children: [
                        .init("entire-ranking", title: "Entire ranking"),
                        .init("current-generation-ranking", query: [.init("currentGeneration", .integer, isRequired: true)]),
                    ])
            ]),
        .init("notifications"),
    ])
    private static let token = Data(repeating: 0xA1, count: 32)

    /// An app on a phone that is pushed to through the simulator.
    private struct Device {
        let api: CampanileAPI
        let registration: DeviceRegistration
        let badge = BadgeStore(storage: .memory())
        let screens: Screens
        let handler: PushHandler
        let icon: SharedNumber

        @MainActor
        init(_ api: CampanileAPI) {
            let icon = SharedNumber()
            self.api = api
            self.icon = icon
            registration = DeviceRegistration(api: api, storage: .memory(), environment: .production, appVersion: "2.1.0")
            screens = Screens(ClientPushTests.tree)
            handler = PushHandler(api: api, badge: badge, icon: BadgeIcon(badge) { icon.set($0) })
            handler.screens = screens
        }
    }

    private final class SharedNumber: Sendable {
        private let number = Mutex(0)
        var value: Int { number.withLock { $0 } }
        func set(_ value: Int) { number.withLock { $0 = value } }
    }

    private func withDevice(
        _ body: @MainActor @Sendable (RunningServer, PushSimulator, String, Device) async throws -> Void
    ) async throws {
        let providers = try await SimulatedProviders.start()
        var configuration = Configuration()
        try providers.configure(&configuration)
        do {
            try await withServer(
                clock: providers.clock,
                {
                    $0.apps = configuration.apps
                    $0.push = configuration.push
                    $0.deepLinks = Self.tree
                }
            ) { server in
                let device = await Device(try await server.phone())
                try await device.registration.register(Self.token)
                try await body(server, providers.simulator, try server.producer(), device)
            }
        } catch {
            await providers.simulator.shutDown()
            throw error
        }
        await providers.simulator.shutDown()
    }

    /// The newest push, as iOS hands it to the app.
    private func userInfo(_ simulator: PushSimulator) throws -> PushPayload {
        let record = try #require(simulator.requests().first { $0.service == .apns })
        let object = try JSONSerialization.jsonObject(with: Data(record.payload.utf8))
        return PushPayload(userInfo: try #require(object as? [String: Any]))
    }

    @Test("a producer's link reaches the phone as it was written, and a tap makes its screens, reads it and sets the number")
    @MainActor
    func tap() async throws {
        try await withDevice { server, simulator, producer, device in
            try await server.notify("Rank", "home/soptamp/entire-ranking", category: "NOTICE", as: producer)
            let id = try await server.notify(
                "Yours", "home/soptamp/current-generation-ranking?currentGeneration=33", category: "NOTICE", as: producer)
            try await server.untilQuiet()
            let phone = try #require(simulator.device(DeviceRegistration.hexadecimal(Self.token)))
            #expect(phone.badge == 2)
            #expect(
                Set(phone.notifications.compactMap(\.deepLink)) == [
                    "home/soptamp/entire-ranking", "home/soptamp/current-generation-ranking?currentGeneration=33",
                ])
            let payloads = try simulator.requests().filter { $0.service == .apns }.map { record in
                let object = try JSONSerialization.jsonObject(with: Data(record.payload.utf8))
                return PushPayload(userInfo: try #require(object as? [String: Any]))
            }
            for payload in payloads { #expect(payload.category == "NOTICE" && payload.isAlert && payload.badgeVersion != nil) }
            let first = try #require(payloads.first { $0.deepLink == "home/soptamp/entire-ranking" })
            let second = try #require(payloads.first { $0.id == id })
            await device.handler.tapped(first)
            #expect(device.screens.shown == ["Home", "Soptamp", "Entire ranking"])
            device.screens.shown = []
            await device.handler.tapped(second)
            #expect(device.screens.shown == ["Home", "Soptamp", "Ranking 33"])
            #expect(try await device.api.notification(id).isRead)
            #expect(device.badge.count == 0 && device.icon.value == 0)
        }
    }

    @Test("a link that the tree doesn't have is refused at the producer, with the segment and the nearest ones")
    @MainActor
    func refused() async throws {
        try await withDevice { server, _, producer, _ in
            let answer = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"T","deep_link":"home/soptamp/entire-rankin"}"#, as: producer)
            #expect(answer.status == 422)
            let message = String(decoding: answer.body, as: UTF8.self)
            #expect(message.contains("entire-rankin") && message.contains("home/soptamp/entire-ranking"))
        }
    }

    @Test("a tap on a link to the inbox shows it and clears the number, here and at the server")
    @MainActor
    func inbox() async throws {
        try await withDevice { server, simulator, producer, device in
            try await server.notify("One", as: producer)
            try await server.notify("Two", "/notifications", as: producer)
            try await server.untilQuiet()
            await device.handler.tapped(try userInfo(simulator))
            #expect(device.screens.shown == ["inbox"])
            #expect(device.badge.count == 0 && device.icon.value == 0)
            #expect(try await device.api.badge().count == 0)
        }
    }

    @Test("a push in the foreground shows its number; one while the inbox shows clears it; a late older one changes nothing")
    @MainActor
    func foreground() async throws {
        try await withDevice { server, simulator, producer, device in
            try await server.notify("One", as: producer)
            try await server.untilQuiet()
            let first = try userInfo(simulator)
            #expect(device.handler.willPresent(first) == .banner)
            #expect(device.badge.count == 1)
            device.screens.isShowingInbox = true
            try await server.notify("Two", as: producer)
            try await server.untilQuiet()
            let second = try userInfo(simulator)
            #expect(device.handler.willPresent(second) == .nothing)
            try await lookUntil { try await device.api.badge().count == 0 }
            #expect(device.badge.count == 0)
            device.screens.isShowingInbox = false
            #expect(await !device.handler.received(first))
            #expect(device.badge.count == 0)
        }
    }

    @Test("after a sign-out no push of the user comes, and whoever signs in on the device gets theirs")
    @MainActor
    func signOut() async throws {
        try await withDevice { server, simulator, producer, device in
            #expect(await device.registration.signOut(device.badge) == .unregistered)
            try await server.notify("For nobody", as: producer)
            try await server.untilQuiet()
            let token = DeviceRegistration.hexadecimal(Self.token)
            #expect(simulator.device(token)?.received ?? 0 == 0)
            let bob = Device(try await server.phone("bob"))
            try await bob.registration.register(Self.token)
            try await server.notify("For Bob", to: "bob", as: producer)
            try await server.untilQuiet()
            #expect(simulator.device(token)?.notifications.map(\.title) == ["For Bob"])
        }
    }

    @Test(
        "whoever signs in where somebody else never signed out gets their own number, although it is older, and then their pushes"
    )
    @MainActor
    func changeOfUser() async throws {
        try await withDevice { server, simulator, producer, device in
            try await device.registration.signedIn("alice", device.badge)
            try await server.notify("For Bob", to: "bob", as: producer)
            for title in ["One", "Two"] { try await server.notify(title, as: producer) }
            try await server.untilQuiet()
            let alices = try userInfo(simulator)
            #expect(device.badge.apply(alices) && device.badge.count == 2)
            let version = device.badge.version
            let bobs = DeviceRegistration(
                api: try await server.phone("bob"), storage: .memory(), environment: .production, appVersion: "2.1.0")
            try await bobs.register(Self.token)
            try await bobs.signedIn("bob", device.badge)
            #expect(device.badge.count == 1 && device.badge.version < version)
            try await server.notify("For Bob too", to: "bob", as: producer)
            try await server.untilQuiet()
            let second = try #require(
                simulator.requests().lazy.filter { $0.service == .apns }.compactMap { record in
                    try? JSONSerialization.jsonObject(with: Data(record.payload.utf8)) as? [String: Any]
                }.map { PushPayload(userInfo: $0) }.first { $0.isAlert && $0.badge == 2 && $0.id != alices.id })
            #expect(device.badge.apply(second) && device.badge.count == 2)
        }
    }
}
