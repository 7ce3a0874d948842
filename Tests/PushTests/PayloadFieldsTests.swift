import CampanileCore
import Testing

@testable import Push

/// The fields of a payload: what may be given, and what they become.
@Suite("payload fields") struct PayloadFieldsTests {
    private static let options = PayloadOptions(topics: ["default": "com.example.app"])

    private static func fields(_ json: String) throws -> PayloadFields {
        guard case .object(let members) = try JSONValue(parsing: Array(json.utf8)) else { return PayloadFields() }
        return PayloadFields(members)
    }

    private static func request(
        _ alert: PushAlert, _ platform: DevicePlatform, _ provider: DeviceProvider, count: Int64 = 3
    ) -> PushRequest {
        let message = Pushes.message(.alert(alert), count: count, provider: provider, platform: platform)
        return switch provider {
        case .apns: APNsPayload.request(message, options: options)
        case .fcm: FCMPayload.request(message, options: options)
        }
    }

    private static let all = ##"""
        {"subtitle":"S","image_url":"https://i.example/a.png","interruption_level":"time-sensitive","relevance_score":0.5,
        "priority":"normal","buttons":"REPLY","loc":{"title_key":"T_K","title_args":["1"],"body_key":"B_K","body_args":["2","3"]},
        "android":{"channel_id":"c","color":"#1d4ed8","icon":"ic","visibility":"secret"},
        "apns":{"aps":{"target-content-id":"w","alert":{"launch-image":"l.png"}},"own":[1,{"a":null}]},
        "fcm":{"direct_boot_ok":true,"notification":{"ticker":"t","sticky":true}}}
        """##

    @Test("every field becomes the keys of its provider, through APNs and through FCM for iOS alike")
    func onIOS() throws {
        let alert = Pushes.alert(payload: Self.all)
        let apns = Self.request(alert, .ios, .apns)
        let fcm = Self.request(alert, .ios, .fcm).payload["message"]?["apns"]
        #expect(fcm?["payload"] == apns.payload)
        let aps = try #require(apns.payload["aps"])
        #expect(
            String(decoding: aps.text, as: UTF8.self)
                == #"{"alert":{"title":"T","subtitle":"S","body":"B","title-loc-key":"T_K","title-loc-args":["1"],"loc-key":"B_K","#
                + #""loc-args":["2","3"],"launch-image":"l.png"},"badge":3,"sound":"default","category":"REPLY","#
                + #""interruption-level":"time-sensitive","relevance-score":0.5,"mutable-content":1,"target-content-id":"w"}"#)
        #expect(apns.payload["imageURL"] == "https://i.example/a.png")
        #expect(apns.payload["own"] == .array([1, .object([.init("a", .null)])]))
        #expect(apns.headers.first { $0.key == "apns-priority" }?.value == "5")
    }

    @Test("every field becomes AndroidConfig's keys, and an overlay lies over them")
    func onAndroid() throws {
        let message = try #require(Self.request(Pushes.alert(payload: Self.all), .android, .fcm).payload["message"])
        #expect(
            String(decoding: try #require(message["android"]).text, as: UTF8.self)
                == #"{"priority":"normal","notification":{"sound":"default","channel_id":"c","tag":"0198c0de-0000-7000-8000-000000000007","#
                + #""notification_count":3,"title_loc_key":"T_K","title_loc_args":["1"],"body_loc_key":"B_K","body_loc_args":["2","3"],"#
                + ##""color":"#1d4ed8","icon":"ic","image":"https://i.example/a.png","visibility":"SECRET","ticker":"t","sticky":true},"##
                + #""direct_boot_ok":true}"#)
        #expect(message["notification"] == .object([.init("title", "T"), .init("body", "B")]))
        #expect(message["data"]?["own"] == nil && message["data"]?["alert"] == nil)
    }

    @Test("an app that draws by itself gets data alone, all of it texts, and what it draws in alert")
    func drawnByApp() throws {
        var all = try Self.fields(Self.all)
        all = try Self.fields(#"{"android":{"display":"app"}}"#).filled(from: all)
        all = PayloadFields(all.members.filter { $0.key != "fcm" })
        let alert = Pushes.alert(category: "NOTICE", data: #"{"n":5}"#, payload: all.text)
        let message = try #require(Self.request(alert, .android, .fcm).payload["message"])
        #expect(message["notification"] == nil && message["android"] == .object([.init("priority", "normal")]))
        guard case .object(let data)? = message["data"], case .string(let drawn)? = message["data"]?["alert"] else {
            Issue.record("no data")
            return
        }
        #expect(Set(data.map(\.key)) == ["category", "id", "badgeVersion", "n", "alert"])
        #expect(data.allSatisfy { if case .string = $0.value { true } else { false } })
        #expect(
            drawn
                == #"{"title":"T","subtitle":"S","body":"B","image_url":"https://i.example/a.png","buttons":"REPLY","channel_id":"c","#
                + ##""color":"#1d4ed8","icon":"ic","visibility":"secret","sound":"default","##
                + #""loc":{"title_key":"T_K","title_args":["1"],"body_key":"B_K","body_args":["2","3"]},"count":3}"#)
        #expect(Self.request(alert, .ios, .apns).payload["alert"] == nil, "iOS draws by itself")
    }

    @Test("a category fills in what isn't given, inside android too; what is given, and an overlay, win")
    func defaults() throws {
        let defaults = try Self.fields(
            ##"{"interruption_level":"passive","buttons":"A","android":{"channel_id":"c","color":"#000000"}}"##)
        let alert = Pushes.alert(
            payload: ##"{"buttons":"B","android":{"color":"#ffffff"},"apns":{"aps":{"interruption-level":"active"}}}"##,
            defaults: defaults)
        let aps = Self.request(alert, .ios, .apns).payload["aps"]
        #expect(aps?["category"] == "B" && aps?["interruption-level"] == "active")
        let notification = Self.request(alert, .android, .fcm).payload["message"]?["android"]?["notification"]
        #expect(notification?["channel_id"] == "c" && notification?["color"] == "#ffffff")
    }

    @Test("an alert that is read by a swipe says so, and gets iOS to tell the app of the swipe")
    func readBySwipe() throws {
        let alert = Pushes.alert(category: "NEWS", isReadBySwipe: true)
        let apns = Self.request(alert, .ios, .apns).payload
        #expect(apns["dismiss"] == "read" && apns["aps"]?["category"] == "NEWS" && apns["category"] == "NEWS")
        #expect(Self.request(alert, .ios, .fcm).payload["message"]?["apns"]?["payload"] == apns)
        #expect(Self.request(alert, .android, .fcm).payload["message"]?["data"]?["dismiss"] == "read")
        // The buttons' category is the app's, and asks for the swipe itself.
        let withButtons = Pushes.alert(category: "NEWS", payload: #"{"buttons":"REPLY"}"#, isReadBySwipe: true)
        #expect(Self.request(withButtons, .ios, .apns).payload["aps"]?["category"] == "REPLY")
        let usual = Self.request(Pushes.alert(category: "NEWS"), .ios, .apns).payload
        #expect(usual["dismiss"] == nil && usual["aps"]?["category"] == nil)
    }

    @Test("where a category leaves the drawing to the app, an overlay's notification is drawn by the system all the same")
    func drawnByCategory() throws {
        let alert = Pushes.alert(
            payload: #"{"fcm":{"notification":{"ticker":"t"},"direct_boot_ok":true}}"#,
            defaults: try Self.fields(#"{"android":{"display":"app"}}"#))
        let message = Self.request(alert, .android, .fcm).payload["message"]
        #expect(message?["android"]?["notification"]?["ticker"] == "t" && message?["android"]?["direct_boot_ok"] == true)
        #expect(message?["notification"]?["title"] == "T" && message?["data"]?["alert"] == nil)
    }

    @Test("an alert that was kept before keeps its push, but for a key that is reserved by now")
    func keptBefore() {
        let alert = Pushes.alert(category: "NOTICE", data: #"{"alert":"x","imageURL":"https://own.example","n":1}"#)
        #expect(
            String(decoding: Self.request(alert, .ios, .apns).payload.text, as: UTF8.self)
                == #"{"aps":{"alert":{"title":"T","body":"B"},"badge":3,"sound":"default"},"category":"NOTICE","#
                + #""id":"0198c0de-0000-7000-8000-000000000007","badgeVersion":42,"imageURL":"https://own.example","n":1}"#)
    }

    private struct Refusal: Sendable, CustomTestStringConvertible {
        let json: String
        let field: String
        let kind: PayloadMistake.Kind
        var testDescription: String { json }

        init(_ json: String, _ field: String, _ kind: PayloadMistake.Kind) {
            (self.json, self.field, self.kind) = (json, field, kind)
        }
    }

    private static let refusals = [
        Refusal(#"{"subtitle":5}"#, "subtitle", .wrongType), Refusal(#"{"subtitle":""}"#, "subtitle", .empty),
        Refusal(#"{"image_url":"http://a.example/i.png"}"#, "image_url", .invalid),
        Refusal(#"{"image_url":"https://u:p@a.example/i.png"}"#, "image_url", .invalid),
        Refusal(#"{"interruption_level":"Passive"}"#, "interruption_level", .invalid),
        Refusal(#"{"relevance_score":1.01}"#, "relevance_score", .invalid),
        Refusal(#"{"relevance_score":"1"}"#, "relevance_score", .wrongType),
        Refusal(#"{"priority":"HIGH"}"#, "priority", .invalid),
        Refusal(#"{"loc":{"body_key":"k","bodyargs":[]}}"#, "loc.bodyargs", .unknown),
        Refusal(#"{"loc":{"body_args":["a"]}}"#, "loc.body_args", .exclusive),
        Refusal(#"{"loc":{"body_key":"k","body_args":["a",1]}}"#, "loc.body_args[1]", .wrongType),
        Refusal(#"{"android":{"color":"red"}}"#, "android.color", .invalid),
        Refusal(#"{"android":{"group":"g"}}"#, "android.group", .unknown),
        Refusal(#"{"apns":{"aps":{"badge":0}}}"#, "apns.aps.badge", .reserved),
        Refusal(#"{"apns":{"aps":{"content-available":1}}}"#, "apns.aps.content-available", .reserved),
        Refusal(#"{"apns":{"aps":{"content-state":{}}}}"#, "apns.aps.content-state", .reserved),
        Refusal(#"{"apns":{"aps":{"threadid":"t"}}}"#, "apns.aps.threadid", .unknown),
        Refusal(#"{"apns":{"aps":{"sound":{"critical":1,"name":"a","volume":2}}}}"#, "apns.aps.sound.volume", .invalid),
        Refusal(#"{"apns":{"aps":{"alert":{"title":"other"}}}}"#, "apns.aps.alert.title", .exclusive),
        Refusal(#"{"apns":{"aps":{"alert":"text"}}}"#, "apns.aps.alert", .wrongType),
        Refusal(#"{"apns":{"id":"x"}}"#, "apns.id", .reserved), Refusal(#"{"apns":{"gcm.x":"x"}}"#, "apns.gcm.x", .reserved),
        Refusal(#"{"apns":{"dismissed":"x"}}"#, "apns.dismissed", .reserved),
        Refusal(#"{"apns":{"n":"x"}}"#, "apns.n", .exclusive), Refusal(#"{"apns":{"o":["\u0000"]}}"#, "apns.o", .invalid),
        Refusal(#"{"fcm":{"data":{}}}"#, "fcm.data", .reserved), Refusal(#"{"fcm":{"prio":"high"}}"#, "fcm.prio", .unknown),
        Refusal(#"{"fcm":{"notification":{"tag":"t"}}}"#, "fcm.notification.tag", .reserved),
        Refusal(#"{"fcm":{"notification":{"group":"g"}}}"#, "fcm.notification.group", .unknown),
        Refusal(#"{"fcm":{"notification":{"body_loc_args":["a"]}}}"#, "fcm.notification.body_loc_args", .exclusive),
        Refusal(#"{"fcm":{"fcm_options":{"analytics_label":"a b"}}}"#, "fcm.fcm_options.analytics_label", .invalid),
        Refusal(#"{"apns":{"aps":{"sound":{"critical":1}}}}"#, "apns.aps.sound.name", .required),
        Refusal(
            #"{"fcm":{"notification":{"light_settings":{"color":{},"light_on_duration":"1s"}}}}"#,
            "fcm.notification.light_settings.light_off_duration", .required),
        Refusal(
            #"{"fcm":{"notification":{"event_time":"2016-12-31T23:59:60Z"}}}"#, "fcm.notification.event_time", .invalid),
        Refusal(#"{"fcm":{"notification":{"event_time":"2030-01-15 12:00:00Z"}}}"#, "fcm.notification.event_time", .invalid),
        Refusal(#"{"fcm":{"ttl":"2419201s"}}"#, "fcm.ttl", .invalid), Refusal(#"{"fcm":{"ttl":null}}"#, "fcm.ttl", .wrongType),
        Refusal(
            #"{"android":{"display":"app"},"fcm":{"notification":{"ticker":"t"}}}"#, "fcm.notification", .exclusive),
        Refusal(#"{"subtitle":"s","apns":{"aps":{"alert":{"subtitle":"o"}}}}"#, "apns.aps.alert.subtitle", .exclusive),
    ]

    @Test("what can't be sent is refused by its field", arguments: refusals)
    private func refused(_ refusal: Refusal) throws {
        let mistakes = try Self.fields(refusal.json).mistakes { ["title", "body", "data.n"].contains($0) }
        #expect(mistakes.map(\.field) == [refusal.field] && mistakes.map(\.kind) == [refusal.kind], "\(mistakes)")
        #expect(mistakes.allSatisfy { $0.sentence.contains($0.field) })
    }

    @Test("the nearest right name is told, also of a word")
    func nearest() throws {
        let mistakes = try Self.fields(#"{"apns":{"aps":{"threadid":"t"}},"android":{"visibility":"publc"}}"#).mistakes { _ in
            false
        }
        #expect(
            Set(mistakes.map(\.sentence)) == [
                "apns.aps.threadid is no field that can be given. Did you mean apns.aps.thread-id?",
                "android.visibility must be private or public or secret; did you mean public?",
            ])
    }

    @Test("whatever is taken is taken by the strict table, and given once more by an overlay it isn't")
    func taken() throws {
        #expect(try Self.fields(Self.all).mistakes { ["title", "body"].contains($0) } == [])
        for (field, key) in PayloadOverlay.keys {
            let names = key.split(separator: ".").map(String.init)
            let value: JSONValue = key.hasSuffix("args") ? .array(["a"]) : "high"
            let overlay = names.dropFirst().reversed().reduce(value) { .object([.init($1, $0)]) }
            let mistakes = PayloadFields([.init(names[0], overlay)]).mistakes { $0 == field }
            #expect(mistakes.contains { $0.field == key && $0.kind == .exclusive }, "\(key)")
        }
    }

    @Test("a body is shortened for its fields, and what can't be shortened doesn't fit")
    func sizes() {
        let long = String(repeating: "한", count: 600)
        for payload in [Self.all, #"{"android":{"display":"app"}}"#] {
            for platform in [DevicePlatform.ios, .android] {
                let alert = Pushes.alert(body: String(repeating: long, count: 2) + "\"\\\u{1}", payload: payload)
                #expect(PayloadLimit.fits(alert))
                let request = Self.request(alert, platform, .fcm)
                #expect(request.body.count - Pushes.device.utf8.count <= PayloadLimit.bytes)
            }
        }
        let own = String(repeating: "x", count: 4_000)
        #expect(!PayloadLimit.fits(Pushes.alert(payload: #"{"apns":{"own":"\#(own)"}}"#)))
        #expect(!PayloadLimit.fits(Pushes.alert(payload: nil, defaults: PayloadFields([.init("buttons", .string(own))]))))
    }
}
