import CampanileCore
import Testing

@testable import Push

@Suite("Payloads") struct PayloadTests {
    private static let options = PayloadOptions(topics: [:])

    private static func request(
        _ alert: PushAlert, _ platform: DevicePlatform, _ provider: DeviceProvider
    ) -> PushRequest {
        let message = Pushes.message(.alert(alert), token: "t", provider: provider, platform: platform)
        return provider == .apns
            ? APNsPayload.request(message, options: options) : FCMPayload.request(message, options: options)
    }

    private static func body(
        _ request: PushRequest, _ platform: DevicePlatform, _ provider: DeviceProvider
    ) -> String? {
        let payload = request.payload
        let value: JSONValue? =
            switch (platform, provider) {
            case (_, .apns): payload["aps"]?["alert"]?["body"]
            case (.android, .fcm): payload["message"]?["notification"]?["body"]
            case (.ios, .fcm): payload["message"]?["apns"]?["payload"]?["aps"]?["alert"]?["body"]
            }
        if case .string(let text)? = value { return text }
        return nil
    }

    static let routes: [(DevicePlatform, DeviceProvider)] = [(.ios, .apns), (.android, .fcm), (.ios, .fcm)]
    /// Bodies whose JSON is longer than themselves, and whose characters are many bytes.
    static let bodies = [
        String(repeating: "a", count: 5_000), String(repeating: "👩‍👩‍👧‍👦", count: 400),
        String(repeating: "\"\\\n", count: 2_000),
        String(repeating: "e\u{301}", count: 2_500), String(repeating: "\u{1}", count: 1_500),
    ]

    @Test("a long body is shortened at a character's end with an ellipsis, to no less than fits", arguments: routes)
    func shortened(_ platform: DevicePlatform, _ provider: DeviceProvider) throws {
        for body in Self.bodies {
            let request = Self.request(Pushes.alert(body: body), platform, provider)
            let size = provider == .apns ? request.body.count : request.body.count - 1
            #expect(size <= 4_096)
            // Less than one character more would have fitted.
            let character = PayloadLimit.escapedBytes(String(body.first ?? " "))
            #expect(size > 4_096 - character - 3)
            let short = try #require(Self.body(request, platform, provider))
            #expect(short.hasSuffix("…"))
            #expect(body.hasPrefix(short.dropLast()))
        }
    }

    @Test("what fits isn't touched, up to the last byte")
    func untouched() throws {
        let empty = Self.request(Pushes.alert(body: ""), .ios, .apns).body.count
        let exact = String(repeating: "x", count: 4_096 - empty)
        #expect(Self.body(Self.request(Pushes.alert(body: exact), .ios, .apns), .ios, .apns) == exact)
        #expect(Self.request(Pushes.alert(body: exact), .ios, .apns).body.count == 4_096)
        #expect(Self.request(Pushes.alert(body: exact + "y"), .ios, .apns).body.count <= 4_096)
    }

    @Test("when the body is gone, the title is shortened too")
    func title() throws {
        let data = #"{"x":"\#(String(repeating: "y", count: 3_850))"}"#
        let alert = Pushes.alert(title: String(repeating: "T", count: 256), body: "Body", data: data)
        let request = Self.request(alert, .ios, .apns)
        #expect(request.body.count <= 4_096)
        #expect(["", "…"].contains(Self.body(request, .ios, .apns)))
        guard case .string(let title)? = request.payload["aps"]?["alert"]?["title"] else { throw Missing() }
        #expect(title.hasPrefix("TTT") && title.hasSuffix("…"))
    }

    @Test("an app that asks for it has mutable-content in its alerts to iOS, of either provider, and in no other push")
    func mutableContent() {
        func aps(_ kind: PushMessage.Kind, _ provider: DeviceProvider, of apps: Set<String>) -> JSONValue? {
            let message = Pushes.message(kind, token: "t", provider: provider, platform: .ios)
            let options = PayloadOptions(topics: [:], mutableContent: apps)
            let request =
                provider == .apns ? APNsPayload.request(message, options: options) : FCMPayload.request(message, options: options)
            return provider == .apns ? request.payload["aps"] : request.payload["message"]?["apns"]?["payload"]?["aps"]
        }
        let app = Pushes.message(.badge, token: "t", provider: .apns, platform: .ios).app
        for provider in [DeviceProvider.apns, .fcm] {
            #expect(aps(.alert(Pushes.alert(body: "b")), provider, of: [app])?["mutable-content"] == 1)
            #expect(aps(.alert(Pushes.alert(body: "b")), provider, of: ["other"])?["mutable-content"] == nil)
            #expect(aps(.badge, provider, of: [app])?["mutable-content"] == nil)
        }
        let android = Pushes.message(.alert(Pushes.alert(body: "b")), token: "t", provider: .fcm, platform: .android)
        let options = PayloadOptions(topics: [:], mutableContent: [app])
        #expect(!String(decoding: FCMPayload.request(android, options: options).body, as: UTF8.self).contains("mutable-content"))
    }

    @Test("an alert that fits to the last byte without mutable-content is refused where the app asks for it")
    func mutableContentCounts() {
        let fitting = (1...1_200).last { count in
            PayloadLimit.fits(Pushes.alert(body: "b", data: #"{"x":"\#(String(repeating: "y", count: 2_600 + count))"}"#))
        }
        let data = #"{"x":"\#(String(repeating: "y", count: 2_600 + (fitting ?? 0)))"}"#
        #expect(PayloadLimit.fits(Pushes.alert(body: "b", data: data)))
        #expect(!PayloadLimit.fits(Pushes.alert(body: "b", data: data), isMutable: true))
    }

    @Test("what can't fit is known when it is created")
    func fits() {
        #expect(PayloadLimit.fits(Pushes.alert(body: String(repeating: "b", count: 2_048))))
        let data = #"{"x":"\#(String(repeating: "y", count: 2_000))"}"#
        #expect(PayloadLimit.fits(Pushes.alert(body: String(repeating: "b", count: 2_048), data: data)))
        let link = "/" + String(repeating: "l", count: 2_000)
        #expect(!PayloadLimit.fits(Pushes.alert(body: "b", deepLink: link, data: data)))
        // Whatever is said to fit does, for every kind of device, with its title whole.
        for length in stride(from: 0, to: 2_000, by: 25) {
            let link = "/" + String(repeating: "l", count: length)
            let alert = Pushes.alert(
                title: String(repeating: "\"", count: 100), body: String(repeating: "b", count: 2_048), category: "C",
                deepLink: link, data: data, collapseKey: String(repeating: "k", count: 64))
            for (platform, provider) in Self.routes where PayloadLimit.fits(alert) {
                let request = Self.request(alert, platform, provider)
                #expect(request.body.count - 1 <= 4_096)
                #expect(Self.body(request, platform, provider)?.hasSuffix("…") ?? false)
            }
        }
    }

    @Test("FCM for Android: count, channel, strings only, ttl within four weeks")
    func android() throws {
        let far = Timestamp(milliseconds: HandClock().now.milliseconds + 60 * 86_400_000)
        let alert = Pushes.alert(
            category: "NOTICE", deepLink: "/a", data: #"{"n":1,"t":true,"s":"x"}"#, collapseKey: "k", expiresAt: far)
        let message = try #require(Self.request(alert, .android, .fcm).payload["message"])
        let notification = try #require(message["android"]?["notification"])
        #expect(notification["notification_count"] == 3)
        #expect(notification["channel_id"] == "NOTICE")
        #expect(message["android"]?["ttl"] == "2419200s")
        #expect(message["android"]?["priority"] == "high")
        #expect(message["android"]?["collapse_key"] == "k")
        guard case .object(let data)? = message["data"] else { throw Missing() }
        #expect(data.allSatisfy { if case .string = $0.value { true } else { false } })
        #expect(
            Set(data.map(\.key)) == ["category", "deepLink", "id", "badgeVersion", "n", "t", "s"])
    }

    @Test("a category's interruption level goes to iOS through both providers, and its channel to Android; without, neither does")
    func category() throws {
        for isSet in [true, false] {
            let alert = Pushes.alert(
                category: "NOTICE",
                defaults: PayloadFields(
                    isSet
                        ? [
                            .init("interruption_level", "time-sensitive"),
                            .init("android", .object([.init("channel_id", "notices")])),
                        ] : []))
            let level: JSONValue? = isSet ? "time-sensitive" : nil
            #expect(Self.request(alert, .ios, .apns).payload["aps"]?["interruption-level"] == level)
            let fcm = Self.request(alert, .ios, .fcm).payload["message"]?["apns"]?["payload"]
            #expect(fcm?["aps"]?["interruption-level"] == level)
            let android = Self.request(alert, .android, .fcm).payload["message"]?["android"]?["notification"]
            #expect(android?["channel_id"] == (isSet ? "notices" : "NOTICE"))
        }
    }

    @Test("FCM for iOS: the payload of APNs with its fields, without topic and id")
    func ios() throws {
        let clearing = FCMPayload.request(
            Pushes.message(.badge, token: "t", count: 0, provider: .fcm, platform: .ios), options: Self.options)
        let apns = try #require(clearing.payload["message"]?["apns"])
        #expect(apns["payload"]?["aps"]?["badge"] == 0)
        guard case .object(let headers)? = apns["headers"] else { throw Missing() }
        #expect(headers.map(\.key) == ["apns-push-type", "apns-priority", "apns-expiration"])
    }

    @Test(
        "Retry-After in seconds and as a date",
        arguments: [
            ("0", 0), ("120", 120_000), (" 5 ", 5_000), ("Mon, 21 Sep 2026 14:13:30 GMT", 10_000),
            ("Mon, 21 Sep 2026 14:13:10 GMT", 0), ("99999999999999999999", 86_400_000), ("9999999", 86_400_000),
        ] as [(String, Int64)])
    func retryAfter(_ text: String, _ expected: Int64) throws {
        let now = try #require(Timestamp("2026-09-21T14:13:20Z"))
        #expect(RetryAfter.milliseconds(text, now: { now }) == expected)
    }

    @Test(
        "a Retry-After that is neither is none",
        arguments: [
            "", "soon", "-1", "1.5", "Mon, 21 Foo 2026 14:13:30 GMT",
        ])
    func noRetryAfter(_ text: String) {
        let now = HandClock().now
        #expect(RetryAfter.milliseconds(text, now: { now }) == nil)
    }

    struct Missing: Error {}
}
