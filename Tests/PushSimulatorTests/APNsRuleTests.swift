import PushSimulator
import Testing

@Suite struct APNsRuleTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        var payload = #"{"aps":{"alert":"hello"}}"#
        var changes: [String: String?] = [:]
        let verdict: String

        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(name: "a good alert", verdict: "200"),
        Case(name: "GET", changes: [":method": "GET"], verdict: "405 MethodNotAllowed"),
        Case(name: "another path", changes: [":path": "/2/device/abcd"], verdict: "404 BadPath"),
        Case(name: "no device token", changes: [":path": "/3/device/"], verdict: "400 MissingDeviceToken"),
        Case(
            name: "a device token that is not hexadecimal", changes: [":path": "/3/device/xyz0"],
            verdict: "400 BadDeviceToken"),
        Case(name: "no provider token", changes: ["authorization": nil], verdict: "403 MissingProviderToken"),
        Case(name: "no JWT", changes: ["authorization": "bearer abc"], verdict: "403 InvalidProviderToken"),
        Case(name: "no topic", changes: ["apns-topic": nil], verdict: "400 MissingTopic"),
        Case(name: "a topic that is none", changes: ["apns-topic": "com example"], verdict: "400 BadTopic"),
        Case(name: "a topic of another push type", changes: ["apns-push-type": "voip"], verdict: "400 BadTopic"),
        Case(name: "another app's topic", changes: ["apns-topic": "com.other.app"], verdict: "400 TopicDisallowed"),
        Case(name: "no push type", changes: ["apns-push-type": nil], verdict: "400 InvalidPushType"),
        Case(name: "an unknown push type", changes: ["apns-push-type": "loud"], verdict: "400 InvalidPushType"),
        Case(name: "priority 5", changes: ["apns-priority": "5"], verdict: "200"),
        Case(name: "priority 7", changes: ["apns-priority": "7"], verdict: "400 BadPriority"),
        Case(name: "expiration 0", changes: ["apns-expiration": "0"], verdict: "200"),
        Case(
            name: "an expiration with a fraction", changes: ["apns-expiration": "17.5"],
            verdict: "400 BadExpirationDate"),
        Case(name: "an expiration before 1970", changes: ["apns-expiration": "-1"], verdict: "400 BadExpirationDate"),
        Case(
            name: "an id in capitals", changes: ["apns-id": "01900000-0000-7000-8000-00000000000A"],
            verdict: "400 BadMessageId"),
        Case(
            name: "an id without hyphens", changes: ["apns-id": "0190000000007000800000000000000a"],
            verdict: "400 BadMessageId"),
        Case(
            name: "a collapse id of 64 bytes", changes: ["apns-collapse-id": String(repeating: "é", count: 32)],
            verdict: "200"),
        Case(
            name: "a collapse id of 65 bytes", changes: ["apns-collapse-id": String(repeating: "é", count: 32) + "x"],
            verdict: "400 BadCollapseId"),
        Case(name: "no payload", payload: "", verdict: "400 PayloadEmpty"),
        Case(name: "a payload that is no object", payload: "[]", verdict: "400 PayloadEmpty"),
        Case(
            name: "a payload with a key twice", payload: #"{"aps":{"badge":1,"badge":2}}"#,
            verdict: "400 PayloadEmpty"),
        Case(name: "a payload of 4,096 bytes", payload: payload(bytes: 4_096), verdict: "200"),
        Case(name: "a payload of 4,097 bytes", payload: payload(bytes: 4_097), verdict: "413 PayloadTooLarge"),
        Case(name: "a payload of 60,000 bytes", payload: payload(bytes: 60_000), verdict: "413 PayloadTooLarge"),
        Case(name: "badge 0 alone", payload: #"{"aps":{"badge":0}}"#, verdict: "200"),
        Case(name: "a clearing that wakes", payload: #"{"aps":{"badge":0,"content-available":1}}"#, verdict: "200"),
        Case(
            name: "an alert without any effect", payload: #"{"aps":{"thread-id":"x"}}"#,
            verdict: "400 InvalidPushType"),
        background(#"{"aps":{"content-available":1},"x":2}"#, "5", "200"),
        background(#"{"aps":{"content-available":1}}"#, "10", "400 BadPriority"),
        background(#"{"aps":{"content-available":1}}"#, nil, "400 BadPriority"),
        background(#"{"aps":{"content-available":1,"badge":0}}"#, "5", "400 InvalidPushType"),
        background(#"{"aps":{"badge":0}}"#, "5", "400 InvalidPushType"),
    ]

    private static func background(_ payload: String, _ priority: String?, _ verdict: String) -> Case {
        Case(
            name: "background \(payload), priority \(priority ?? "none")", payload: payload,
            changes: ["apns-push-type": "background", "apns-priority": priority], verdict: verdict)
    }

    private static func payload(bytes: Int) -> String {
        let frame = #"{"aps":{"alert":""}}"#
        return #"{"aps":{"alert":""# + String(repeating: "a", count: bytes - frame.utf8.count) + #""}}"#
    }

    @Test("each rule of APNs is checked, with Apple's reason")
    func rules() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for item in Self.cases {
                let answer = try await sender.answer(fixture.push(payload: item.payload, item.changes))
                #expect(answer.verdict == item.verdict, "\(item.name)")
            }
            #expect(fixture.simulator.counters.requests == Self.cases.count)
            #expect(fixture.simulator.counters.answers["413 PayloadTooLarge"] == 2)
        }
    }

    @Test("a field of APNs that comes twice is refused")
    func duplicates() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            var push = try fixture.push()
            push.fields.append(("apns-topic", fixture.simulator.credentials.topic))
            #expect(try await sender.answer(push).verdict == "400 DuplicateHeaders")
        }
    }

    @Test("the id comes back, and is made when none was given")
    func ids() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let id = "01900000-0000-7000-8000-00000000000a"
            #expect(try await sender.answer(fixture.push(["apns-id": id])).fields["apns-id"] == id)
            #expect(
                try await sender.answer(fixture.push(["apns-id": id, "apns-priority": "7"])).fields["apns-id"] == id)
            let made = try await sender.answer(fixture.push()).fields["apns-id"]
            #expect(made?.utf8.count == 36)
        }
    }

    @Test("a dead token is answered with 410 and its time in milliseconds, until it lives again")
    func gone() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.markGone(Fixture.token, since: 1_700_000_000_123)
            let answer = try await sender.answer(fixture.push())
            #expect(answer.status == 410)
            #expect(answer.text == #"{"reason":"Unregistered","timestamp":1700000000123}"#)
            fixture.simulator.markGone(Fixture.token, since: nil)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("a token of one environment is bad in the other, by port and by Apple's host names")
    func environments() async throws {
        try await withSimulator({ $0.sandboxPort = 0 }) { fixture in
            let production = try await fixture.connect()
            let sandbox = try await fixture.connect(environment: .sandbox)
            #expect(try await sandbox.answer(fixture.push()).verdict == "200")
            #expect(try await production.answer(fixture.push()).verdict == "400 BadDeviceToken")
            #expect(
                try await production.answer(fixture.push([":authority": "api.sandbox.push.apple.com"])).verdict == "200"
            )
            #expect(fixture.simulator.device(Fixture.token)?.environment == .sandbox)
        }
    }

    @Test("with known tokens only, a new one is bad")
    func knownOnly() async throws {
        try await withSimulator({ $0.knownTokensOnly = true }) { fixture in
            let sender = try await fixture.connect()
            #expect(try await sender.answer(fixture.push()).verdict == "400 BadDeviceToken")
            fixture.simulator.addDevice(Fixture.token)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("a token belongs to the first app that pushed to it")
    func apps() async throws {
        try await withSimulator { fixture in
            fixture.simulator.addDevice(Fixture.token, app: "com.other.app")
            let sender = try await fixture.connect()
            #expect(try await sender.answer(fixture.push()).verdict == "400 DeviceTokenNotForTopic")
        }
    }

    @Test("the log keeps what was sent, and no credential")
    func log() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push(["apns-collapse-id": "c1"]))
            let record = try #require(fixture.simulator.requests().first)
            #expect(record.field("authorization") == "…")
            #expect(record.field("apns-collapse-id") == "c1")
            #expect(record.payload.contains(#""badge":3"#))
            #expect(record.status == 200)
        }
    }
}
