import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@MainActor
private final class Screens: PushScreens {
    var isShowingInbox = false
    var canShowInbox = true
    var shown: [String] = [] {
        didSet { story.withLock { $0.append("screen") } }
    }
    /// The events in their order: screens, and the server's answers.
    let story = Locked<[String]>([])

    func showInbox() -> Bool {
        if canShowInbox { shown.append("inbox") }
        return canShowInbox
    }
    func open(_ payload: PushPayload) { shown.append(payload.deepLink ?? "") }
}

/// A handler whose server answers each call, and what came of it.
@MainActor
private struct Scene {
    let transport: ScriptedTransport
    let store = BadgeStore(storage: .memory())
    let screens = Screens()
    let icon = Locked<[Int]>([])
    let failures = Locked<[ClientFailure]>([])
    let handler: PushHandler

    /// - Parameter isPatient: whether a tap's screen waits for the server without end, or not at all.
    init(
        count: Int = 2, delivered: [PushPayload] = [], isPatient: Bool = true, clears: PushHandler.Clearing = .inbox,
        _ script: ScriptedTransport.Script? = nil
    ) {
        let story = screens.story
        transport = ScriptedTransport { call, number in
            // Late, as a network is.
            for _ in 0..<20 { await Task.yield() }
            let answer: HTTPAnswer
            if let script {
                answer = try await script(call, number)
            } else {
                switch call.method {
                case "PATCH": answer = .notification
                case "DELETE": answer = .badge(0, version: 50)
                default: answer = .badge(count, version: 40)
                }
            }
            story.withLock { $0.append(call.method) }
            return answer
        }
        let icon = icon
        let failures = failures
        store.apply(count: 3, version: 30)
        handler = PushHandler(
            api: .scripted(transport), badge: store,
            icon: BadgeIcon(store) { count in
                icon.withLock { $0.append(count) }
            } delivered: {
                delivered
            },
            clears: clears,
            sleep: { _ in if isPatient { try await Task.sleep(for: .seconds(3_600)) } },
            report: { failure in failures.withLock { $0.append(failure) } })
        handler.screens = screens
    }
}

@Suite("What a push does")
@MainActor
struct PushTests {
    @Test("a tap marks read, then opens the link, and the number is the server's")
    func tap() async {
        let scene = Scene()
        await scene.handler.tapped(PushPayload(id: "n1", deepLink: "home/soptamp"))
        #expect(scene.transport.summary == ["PATCH /notifications/n1", "GET /badge"])
        #expect(scene.screens.shown == ["home/soptamp"])
        #expect(scene.screens.story.withLock { $0 } == ["PATCH", "screen", "GET"])
        #expect(scene.store.count == 2 && scene.icon.withLock { $0.last } == 2)
    }

    @Test(
        "the system is answered when the screen is open, and not after the server; a push that is put away opens and reads nothing"
    )
    func answered() async {
        let isAnswered = Watched(false)
        let scene = Scene(isPatient: false) { call, _ in
            await isAnswered.until { $0 }
            return call.method == "PATCH" ? .notification : .badge(1, version: 40)
        }
        let story = scene.screens.story
        let push = PushPayload(id: "n1", deepLink: "home")
        await scene.handler.responded(to: push, isDismissed: false) {
            story.withLock { $0.append("answer") }
            isAnswered.change { $0 = true }
        }
        #expect(story.withLock { $0 } == ["screen", "answer", "PATCH", "GET"])
        await scene.handler.responded(to: push, isDismissed: true) { story.withLock { $0.append("answer") } }
        #expect(story.withLock { $0.last } == "answer" && scene.transport.calls.count == 2 && scene.screens.shown == ["home"])
    }

    @Test("of two taps the newer one's screen stays, whichever the server answers first")
    func newestTap() async {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let scene = Scene { call, _ in
            if call.url.path.hasSuffix("/n1") { for await _ in gate { break } }
            return call.method == "PATCH" ? .notification : .badge(1, version: 40)
        }
        let first = Task { await scene.handler.tapped(PushPayload(id: "n1", deepLink: "home")) }
        await scene.transport.untilCalled()
        await scene.handler.tapped(PushPayload(id: "n2", deepLink: "home/soptamp"))
        open.yield()
        await first.value
        #expect(scene.screens.shown == ["home/soptamp"])
    }

    @Test("when patience has ended the screen opens while the server hasn't answered yet")
    func tapWithoutWaiting() async {
        let screens = Screens()
        let scene = Scene(isPatient: false) { call, _ in
            try await lookUntil { await !screens.shown.isEmpty }
            return call.method == "PATCH" ? .notification : .badge(1, version: 40)
        }
        scene.handler.screens = screens
        await scene.handler.tapped(PushPayload(id: "n1", deepLink: "home"))
        #expect(screens.shown == ["home"] && scene.transport.summary == ["PATCH /notifications/n1", "GET /badge"])
    }

    @Test(
        "a link to the inbox selects its tab and clears the number",
        arguments: [
            "/notifications", "notifications", "/notifications?a=1#b",
        ])
    func inbox(_ link: String) async {
        let scene = Scene()
        await scene.handler.tapped(PushPayload(id: "n1", deepLink: link))
        #expect(scene.screens.shown == ["inbox"])
        #expect(scene.transport.summary == ["PATCH /notifications/n1", "DELETE /badge"])
        #expect(scene.store.count == 0 && scene.store.version == 50 && scene.icon.withLock { $0.last } == 0)
    }

    @Test("a tap at a cold start is opened when the screens are there; a newer tap replaces it")
    func coldStart() async {
        let scene = Scene()
        scene.handler.screens = nil
        await scene.handler.tapped(PushPayload(id: "n1", deepLink: "home"))
        await scene.handler.tapped(PushPayload(id: "n2", deepLink: "home/soptamp"))
        #expect(scene.screens.shown == [])
        scene.handler.screens = scene.screens
        #expect(scene.screens.shown == ["home/soptamp"])
        scene.handler.screens = scene.screens
        #expect(scene.screens.shown == ["home/soptamp"])
    }

    @Test("a link to the inbox clears nothing where nothing is shown, and none that waits for the screens until it is shown")
    func inboxNotShown() async {
        let scene = Scene()
        scene.screens.canShowInbox = false
        let tap = PushPayload(id: "n1", deepLink: "/notifications")
        await scene.handler.tapped(tap)
        scene.handler.screens = nil
        await scene.handler.tapped(tap)
        #expect(scene.transport.summary == ["PATCH /notifications/n1", "GET /badge", "PATCH /notifications/n1", "GET /badge"])
        #expect(scene.screens.shown == [] && scene.store.count == 2)
        scene.screens.canShowInbox = true
        scene.handler.screens = scene.screens
        #expect(scene.screens.shown == ["inbox"] && scene.store.count == 0)
        await scene.handler.work?.value
        #expect(scene.transport.summary.last == "DELETE /badge" && scene.icon.withLock { $0.last } == 0)
    }

    @Test("with clears: .activation the number is 0 when the app comes to the foreground, and for a push that arrives there")
    func activation() async {
        let scene = Scene(clears: .activation)
        await scene.handler.cameToForeground()
        #expect(scene.transport.summary == ["DELETE /badge"] && scene.icon.withLock { $0.last } == 0)
        let heard = Locked<[Int]>([])
        let observation = scene.store.observe { count in heard.withLock { $0.append(count) } }
        #expect(scene.handler.willPresent(PushPayload(id: "n1", badge: 4, badgeVersion: 51)) == .banner)
        await scene.handler.work?.value
        #expect(scene.transport.summary == ["DELETE /badge", "DELETE /badge"])
        #expect(scene.store.count == 0 && Set(heard.withLock { $0 }) == [0])
        scene.screens.isShowingInbox = true
        #expect(scene.handler.willPresent(PushPayload(id: "n2", badge: 5, badgeVersion: 52)) == .nothing)
        await scene.handler.work?.value
        observation.cancel()
    }

    @Test("a tap offline opens the link all the same, and says what failed")
    func offline() async {
        let scene = Scene { _, _ in throw URLError(.notConnectedToInternet) }
        await scene.handler.tapped(PushPayload(id: "n1", deepLink: "home"))
        #expect(scene.screens.shown == ["home"])
        #expect(scene.failures.withLock { $0.map(\.kind) } == [.offline, .offline])
        #expect(scene.store.count == 3)
    }

    @Test("one that arrives in the foreground shows its number and a banner")
    func foreground() async {
        let scene = Scene()
        #expect(scene.handler.willPresent(PushPayload(id: "n1", badge: 4, badgeVersion: 31)) == .banner)
        #expect(scene.store.count == 4)
        #expect(scene.handler.willPresent(PushPayload(id: "n0", badge: 9, badgeVersion: 29)) == .banner)
        #expect(scene.store.count == 4 && scene.transport.calls.isEmpty)
    }

    @Test("one that arrives while the inbox is showing clears, here and at the server, and shows no banner")
    func inboxShowing() async {
        let scene = Scene()
        scene.screens.isShowingInbox = true
        let heard = Locked<[Int]>([])
        let observation = scene.store.observe { count in heard.withLock { $0.append(count) } }
        #expect(scene.handler.willPresent(PushPayload(id: "n1", badge: 4, badgeVersion: 31)) == .nothing)
        await scene.handler.work?.value
        #expect(scene.transport.summary == ["DELETE /badge"])
        #expect(!heard.withLock { $0 }.contains(4) && scene.store.version == 50)
        observation.cancel()
    }

    @Test("a number that the backend gives comes with a push while the inbox is showing, and is never 0 in between")
    func givenInboxShowing() async {
        // The answers were made before the push.
        let scene = Scene { call, _ in
            call.method == "GET" ? .badge(7, version: 30) : .problem(409, "badge_is_given")
        }
        await scene.handler.inboxAppeared()
        scene.screens.isShowingInbox = true
        // A 0 would empty iOS's notification center.
        let heard = Locked<[Int]>([])
        let observation = scene.store.observe { count in heard.withLock { $0.append(count) } }
        #expect(scene.handler.willPresent(PushPayload(id: "n1", badge: 8, badgeVersion: 31)) == .nothing)
        await scene.handler.work?.value
        #expect(scene.transport.summary == ["DELETE /badge", "GET /badge", "DELETE /badge", "GET /badge"])
        #expect(Set(heard.withLock { $0 }) == [7, 8] && scene.store.count == 8 && scene.icon.withLock { $0.last } == 8)
        observation.cancel()
    }

    @Test("a push that wakes the app sets the icon before it returns, also when the app was killed; an older one changes nothing")
    func wakes() async {
        let scene = Scene()
        #expect(await scene.handler.received(PushPayload(badge: 0, badgeVersion: 31, isAlert: false)))
        #expect(scene.icon.withLock { $0.last } == 0)
        #expect(await scene.handler.received(PushPayload(badge: 7, badgeVersion: 12, isAlert: false)) == false)
        #expect(scene.store.count == 0 && scene.icon.withLock { $0.last } == 0)
    }

    @Test("in the foreground the icon gets the number that the server answers, and none before; an inbox that shows is cleared")
    func cameToForeground() async {
        let scene = Scene()
        await scene.handler.cameToForeground()
        #expect(scene.transport.summary == ["GET /badge"])
        #expect(Set(scene.icon.withLock { $0 }) == [2])
        scene.screens.isShowingInbox = true
        await scene.handler.cameToForeground()
        #expect(scene.transport.summary.last == "DELETE /badge" && scene.store.count == 0)
    }

    @Test("the foreground takes the newest number of what iOS has shown without the app; offline the icon keeps what iOS set")
    func delivered() async {
        let delivered = [
            PushPayload(id: "n4", badge: 4, badgeVersion: 34), PushPayload(id: "n5", badge: 5, badgeVersion: 35),
            PushPayload(id: "x"),
        ]
        let scene = Scene(delivered: delivered) { _, _ in throw URLError(.notConnectedToInternet) }
        let heard = Locked<[Int]>([])
        let observation = scene.store.observe { count in heard.withLock { $0.append(count) } }
        await scene.handler.cameToForeground()
        for _ in 0..<20 { await Task.yield() }
        #expect(scene.store.count == 5 && scene.store.version == 35)
        #expect(heard.withLock { $0 } == [3, 5] && scene.icon.withLock { $0 }.isEmpty)
        observation.cancel()
    }

    @Test("while nobody is signed in the icon shows nothing in the foreground, whatever iOS has set, and nobody is asked")
    func nobodySignedIn() async throws {
        let scene = Scene(delivered: [PushPayload(id: "n4", badge: 4, badgeVersion: 34)])
        scene.store.signedOut()
        await scene.handler.cameToForeground()
        // What the store told of itself reaches the icon by a task of its own.
        try await lookUntil { scene.icon.withLock { $0 } == [0, 0] }
        scene.icon.withLock { $0 = [4] }
        await scene.handler.cameToForeground()
        #expect(scene.icon.withLock { $0 } == [4, 0] && scene.transport.calls.isEmpty && scene.failures.withLock { $0 }.isEmpty)
    }

    @Test("in the foreground the app shows what its extension took meanwhile")
    func fromExtension() async {
        let storage = ClientStorage.memory()
        let app = BadgeStore(storage: storage)
        let heard = Locked<[Int]>([])
        let observation = app.observe { count in heard.withLock { $0.append(count) } }
        BadgeStore(storage: storage).apply(count: 6, version: 60)
        await BadgeIcon(app) { _ in }.notice()
        #expect(heard.withLock { $0 } == [0, 6])
        observation.cancel()
    }

    @Test("a clearing that fails looks first whether something came, and then clears again")
    func clearingFails() async {
        let scene = Scene { call, number in
            if number == 1 { throw URLError(.networkConnectionLost) }
            return call.method == "DELETE" ? .badge(0, version: 31) : .badge(3, version: 30)
        }
        await scene.handler.inboxAppeared()
        #expect(scene.transport.summary == ["DELETE /badge", "GET /badge", "DELETE /badge"])
        #expect(scene.store.count == 0 && scene.store.version == 31 && scene.icon.withLock { $0.last } == 0)
    }

    @Test("an icon that is made doesn't set the number that was kept, since iOS may have set a newer one")
    func launch() async {
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 30)
        let shown = Locked<[Int]>([])
        let icon = BadgeIcon(store) { count in shown.withLock { $0.append(count) } }
        for _ in 0..<20 { await Task.yield() }
        #expect(shown.withLock { $0 }.isEmpty)
        store.apply(count: 4, version: 31)
        await icon.update()
        #expect(shown.withLock { $0.last } == 4)
    }

    @Test("values of the wrong kind in a payload count as missing")
    func wrongKinds() {
        let payload = PushPayload(userInfo: [
            "aps": ["badge": "3"], "id": 7, "deepLink": ["home"], "category": NSNull(), "badgeVersion": 1.5, 9: "x",
        ])
        #expect(payload == PushPayload(isAlert: false))
        #expect(PushPayload(userInfo: ["aps": "x"]) == PushPayload(isAlert: false))
    }

    @Test("an alert's image is its https address beside aps; any other address, and another place, count as missing")
    func image() {
        func payload(_ imageURL: Any?) -> PushPayload {
            var userInfo: [AnyHashable: Any] = ["aps": ["alert": ["title": "T"], "mutable-content": 1] as [String: Any]]
            userInfo["imageURL"] = imageURL
            return PushPayload(userInfo: userInfo)
        }
        let address = "https://images.example.com/1.png?size=2"
        #expect(payload(address) == PushPayload(imageURL: .example(address)))
        #expect(payload(address).imageURL?.absoluteString == address)
        let others: [Any?] = [nil, "", "http://images.example.com/1.png", "file:///1.png", "1.png", 7, [address]]
        for other in others { #expect(payload(other) == PushPayload(), "\(String(describing: other))") }
        #expect(PushPayload(userInfo: ["aps": ["alert": "T", "imageURL": address]]).imageURL == nil)
        #expect(PushPayload(imageURL: .example("http://images.example.com/1.png")).imageURL == nil)
    }
}

@Suite("A device's registration")
struct DeviceRegistrationTests {
    private func registration(
        _ transport: ScriptedTransport, _ storage: ClientStorage = .memory(),
        token: @escaping CampanileAPI.UserToken = { _ in "jwt" }
    ) -> (CampanileAPI, DeviceRegistration) {
        let api = CampanileAPI.scripted(transport, token: token)
        let registration = DeviceRegistration(
            api: api, storage: storage, environment: .sandbox, appVersion: "2.1.0", locale: "ko_KR")
        return (api, registration)
    }

    @Test("a token is registered as hexadecimal with the build's environment, at every launch anew")
    func register() async throws {
        let transport = ScriptedTransport { _, _ in .json("{}", status: 201) }
        let storage = ClientStorage.memory()
        for _ in 1...2 {
            let (api, registration) = registration(transport, storage)
            try await registration.register(Data([0x00, 0x0F, 0xA0, 0xFF]))
            #expect(api.deviceToken == "000fa0ff")
        }
        #expect(transport.summary == ["POST /device_tokens", "POST /device_tokens"])
        let body = transport.calls[0].body.flatMap { JSONValue(data: $0) }
        #expect(body?["token"] == "000fa0ff" && body?["platform"] == "ios" && body?["environment"] == "sandbox")
        #expect(body?["app_version"] == "2.1.0" && body?["locale"] == "ko_KR")
    }

    @Test("whichever comes second registers: the device's token, or the user's sign-in")
    func order() async throws {
        let transport = ScriptedTransport { _, _ in .json("{}", status: 201) }
        let user = Locked<String?>(nil)
        let (_, registration) = registration(transport) { _ in user.withLock { $0 } }
        try await registration.signedIn()
        try await registration.register(Data([1]))
        #expect(transport.calls.isEmpty)
        user.withLock { $0 = "jwt" }
        try await registration.signedIn()
        #expect(transport.summary == ["POST /device_tokens"])
    }

    @Test("sign-out deletes the device token, then forgets the badge, and keeps the token for whoever signs in next")
    func signOut() async throws {
        let transport = ScriptedTransport { call, _ in
            switch call.method {
            case "DELETE": HTTPAnswer(status: 204)
            case "GET": .badge(0, version: 3)
            default: .json("{}", status: 201)
            }
        }
        let storage = ClientStorage.memory()
        let (_, registration) = registration(transport, storage)
        let badge = BadgeStore(storage: storage)
        try await registration.register(Data([1, 2]))
        badge.apply(count: 3, version: 9)
        #expect(await registration.signOut(badge) == .unregistered)
        #expect(badge.count == 0 && badge.version == 0)
        try await registration.signedIn("bob", badge)
        #expect(
            transport.summary == [
                "POST /device_tokens", "DELETE /device_tokens/0102", "POST /device_tokens", "GET /badge",
            ])
    }

    @Test("a sign-out offline says that pushes go on coming, forgets the badge all the same, and can be done again")
    func signOutOffline() async throws {
        let transport = ScriptedTransport { call, number in
            if call.method == "DELETE", number < 3 { throw URLError(.notConnectedToInternet) }
            return HTTPAnswer(status: 204)
        }
        let (_, registration) = registration(transport)
        let badge = BadgeStore(storage: .memory())
        badge.apply(count: 3, version: 9)
        try await registration.register(Data([1, 2]))
        guard case .stillRegistered(let failure) = await registration.signOut(badge) else {
            Issue.record("It wasn't said.")
            return
        }
        #expect(failure.kind == .offline && badge.count == 0)
        #expect(await registration.signOut(badge) == .unregistered)
    }

    @Test("a sign-out waits for a registration that is on its way, so that it can't arrive behind it")
    func signOutInTurn() async throws {
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let done = Locked<[String]>([])
        let transport = ScriptedTransport { call, _ in
            if call.method == "POST" { for await _ in gate { break } }
            done.withLock { $0.append(call.method) }
            return HTTPAnswer(status: 204)
        }
        let (_, registration) = registration(transport)
        let registering = Task { try await registration.register(Data([1])) }
        await transport.untilCalled()
        let leaving = Task { await registration.signOut(BadgeStore(storage: .memory())) }
        for _ in 0..<100 { await Task.yield() }
        #expect(transport.summary == ["POST /device_tokens"])
        open.yield()
        try await registering.value
        #expect(await leaving.value == .unregistered)
        #expect(done.withLock { $0 } == ["POST", "DELETE"])
    }

    @Test("a registration that failed is made again when the app comes to the foreground, and only then")
    func foreground() async throws {
        let transport = ScriptedTransport { _, number in
            if number == 1 { throw URLError(.notConnectedToInternet) }
            return .json("{}", status: 201)
        }
        let (_, registration) = registration(transport)
        try await registration.cameToForeground()
        await #expect(throws: ClientFailure.self) { try await registration.register(Data([1])) }
        try await registration.cameToForeground()
        try await registration.cameToForeground()
        #expect(transport.calls.count == 2)
    }

    @Test(
        "only a profile that says development makes the sandbox",
        arguments: [
            ("<key>aps-environment</key><string>development</string>", DeviceEnvironment.sandbox),
            ("<key>com.apple.developer.aps-environment</key><string>development</string>", .sandbox),
            ("<key>aps-environment</key><string>production</string>", .production), ("", .production),
            ("<key>aps-environment</key><true/>", .production),
        ])
    func environment(_ entitlement: String, _ expected: DeviceEnvironment) {
        let list =
            #"<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>Name</key><string>development</string>"#
            + "<key>Entitlements</key><dict>\(entitlement)</dict></dict></plist>"
        let envelope = Data([0x30, 0x82, 0xFF, 0x00]) + Data(list.utf8) + Data([0xFE, 0x00, 0xA0])
        #expect(DeviceEnvironment(provisioningProfile: envelope) == expected)
    }

    @Test(
        "no profile, as in TestFlight and the App Store, and a broken one mean production",
        arguments: [
            nil, "", "<plist", "<plist></plist>", "</plist><plist version=\"1.0\"><dict>",
            "<plist version=\"1.0\"><array/></plist>",
        ] as [String?])
    func noProfile(_ text: String?) {
        #expect(DeviceEnvironment(provisioningProfile: text.map { Data($0.utf8) }) == .production)
    }
}
