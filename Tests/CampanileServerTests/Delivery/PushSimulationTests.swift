import CampanileCore
import Crypto
import Foundation
import PushSimulator
import Testing

@testable import CampanileServer

/// The whole way: a call over HTTP, the delivery worker, the real providers over HTTP/2 and TLS, and the simulator's phones, which
/// share no code with the providers.
@Suite("Pushes to simulated phones", .serialized)
struct PushSimulationTests {
    private static let native = ["User-Agent": "Example/1 Hotwire Native iOS"]
    private static let iPhone = String(repeating: "a", count: 64)
    private static let iPad = String(repeating: "b", count: 64)

    @Test("a notification reaches every phone with the badge of the moment, and reading it elsewhere sets the icons back")
    func wholeWay() async throws {
        try await withSimulator { server, providers in
            let producer = try server.producer()
            let alice = try await server.user()
            try await server.register(Self.iPhone, as: alice)
            try await server.register(Self.iPad, as: alice)
            try await server.register("pixel", platform: "android", as: alice)
            for title in ["One", "Two"] {
                let answer = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"\#(title)","deep_link":"/a?b=1","data":{"n":1}}"#,
                    as: producer)
                #expect(answer.status == 201)
                try await server.untilQuiet()
            }
            for token in [Self.iPhone, Self.iPad, "pixel"] {
                let phone = try #require(providers.simulator.device(token))
                #expect(phone.badge == 2)
                #expect(phone.notifications.map(\.title).sorted() == ["One", "Two"])
                #expect(phone.notifications.allSatisfy { $0.deepLink == "/a?b=1" })
            }
            #expect(try await server.client.get("/notifications", as: alice, headers: Self.native).status == 200)
            try await server.untilQuiet()
            for token in [Self.iPhone, Self.iPad] {
                let phone = try #require(providers.simulator.device(token))
                #expect(phone.badge == 0 && phone.notifications.isEmpty)
            }
            let counters = providers.simulator.counters
            #expect(counters.answers.keys.sorted() == ["200"])
            #expect(counters.duplicates == 0 && counters.streamLimitViolations == 0)
            #expect(counters.renewals.count == 1)
        }
    }

    @Test("a key that Apple doesn't know parks the app, costs no attempt and no token, and its replacement lets the pushes go")
    func wrongKey() async throws {
        try await withSimulator(prepare: { try $0.writeKey(P256.Signing.PrivateKey().pemRepresentation) }) {
            server, providers in
            let (producer, watch) = (try server.producer(), try server.operator())
            let alice = try await server.user()
            try await server.register(Self.iPhone, as: alice)
            let answer = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"Hello"}"#, as: producer)
            let id = try #require(try answer.json["id"]?.string)
            try await server.untilQuiet()
            let details = try await server.client.get("/readyz", as: watch).json["details"]?.array.compactMap(\.string) ?? []
            #expect(details.count == 1 && details[0].contains("default") && details[0].contains("InvalidProviderToken"))
            let owed = try await server.deliveries(id, as: producer)
            #expect(owed.map { $0["state"]?.string } == ["owed"])
            #expect(owed.map { $0["attempts"]?.int } == [0])
            #expect(providers.simulator.device(Self.iPhone)?.received ?? 0 == 0)

            try providers.writeKey()
            try server.reload()
            // The push's own wait for a mended configuration.
            server.clock.advance(seconds: 60)
            server.app.deliveryWorker.wake()
            try await lookUntil { providers.simulator.device(Self.iPhone)?.received ?? 0 > 0 }
            try await server.untilQuiet()
            #expect(try await server.deliveries(id, as: producer).map { $0["state"]?.string } == ["accepted"])
            #expect(try await server.client.get("/readyz", as: watch).json["details"]?.array.isEmpty == true)
        }
    }

    @Test("a token that Apple calls dead leaves with its moment in milliseconds, and stays if the app registered after it")
    func gone() async throws {
        try await withSimulator { server, providers in
            let producer = try server.producer()
            let alice = try await server.user()
            try await server.register(Self.iPhone, as: alice)
            try await server.register(Self.iPad, as: alice)
            let registered = server.clock.now.milliseconds
            providers.simulator.markGone(Self.iPhone, since: registered + 1)
            providers.simulator.markGone(Self.iPad, since: registered - 1)
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"Hello"}"#, as: producer)
            try await server.untilQuiet()
            let tokens = try await server.client.get("/device_tokens", as: alice).json["device_tokens"]?.array ?? []
            #expect(tokens.map { $0["token"]?.string } == [Self.iPad])
        }
    }

    @Test("one app's outage is one lane's: the other provider's pushes go on, and the outage ends by itself")
    func outage() async throws {
        try await withSimulator { server, providers in
            let (producer, watch) = (try server.producer(), try server.operator())
            let alice = try await server.user()
            try await server.register(Self.iPhone, as: alice)
            try await server.register("pixel", platform: "android", as: alice)
            providers.simulator.setFaults([FaultRule(.outage(retryAfter: nil), match: FaultMatch(service: .apns))])
            for number in 1...12 {
                _ = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"\#(number)"}"#, as: producer)
                try await server.untilQuiet()
            }
            #expect(providers.simulator.device("pixel")?.received == 12)
            #expect(try await server.client.get("/readyz", as: watch).json["details"]?.array.count == 1)
            providers.simulator.setFaults([])
            for _ in 0..<6 {
                server.clock.advance(seconds: 300)
                server.app.deliveryWorker.wake()
                try await server.untilQuiet()
            }
            let phone = try #require(providers.simulator.device(Self.iPhone))
            #expect(phone.badge == 12 && phone.notifications.count == 12)
            #expect(try await server.client.get("/readyz", as: watch).json["details"]?.array.isEmpty == true)
            #expect(providers.simulator.counters.duplicates == 0)
        }
    }

    @Test("what no push could carry is refused when it is created; a long body is shortened")
    func tooLarge() async throws {
        try await withSimulator { server, providers in
            let producer = try server.producer()
            let alice = try await server.user()
            try await server.register(Self.iPhone, as: alice)
            let link = "/" + String(repeating: "x", count: 2_000)
            let data = #"{"a":"\#(String(repeating: "y", count: 2_000))"}"#
            let refused = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"T","deep_link":"\#(link)","data":\#(data)}"#, as: producer)
            #expect(refused.status == 422)
            #expect(refused.errorFields == ["data"])
            let silent = try await server.client.post(
                "/notifications", #"{"user_id":"bob","title":"T","deep_link":"\#(link)","data":\#(data),"push":false}"#,
                as: producer)
            #expect(silent.status == 201)
            let body = String(repeating: "é", count: 1_000)
            let long = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"T","body":"\#(body)","deep_link":"\#(link)"}"#, as: producer)
            #expect(long.status == 201)
            try await server.untilQuiet()
            let shown = try #require(providers.simulator.device(Self.iPhone)?.notifications.first)
            #expect(shown.body.hasSuffix("…") && shown.body.count > 100 && body.hasPrefix(shown.body.dropLast()))
        }
    }
}

extension RunningServer {
    fileprivate func register(_ token: String, platform: String = "ios", as user: String) async throws {
        let answer = try await client.post(
            "/device_tokens", #"{"token":"\#(token)","platform":"\#(platform)"}"#, as: user)
        #expect(answer.status == 201)
    }

    fileprivate func deliveries(_ id: String, as producer: String) async throws -> [JSONValue] {
        try await client.get("/notifications/\(id)/deliveries", as: producer).json["deliveries"]?.array ?? []
    }

    /// Does what a SIGHUP does.
    fileprivate func reload() throws { try app.reload(app.configuration) }
}
