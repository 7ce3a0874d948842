import PushSimulator
import Testing

/// FCM's rules for values, beyond the schema.
@Suite struct FCMMessageTests {
    private static let everything = #"""
        {"message":{"token":"d1","data":{"a":"b"},"notification":{"title":"T","body":"B","image":"https://example.com/a.png"},
        "fcm_options":{"analytics_label":"news-2026_a.b~c%d"},"android":{"collapse_key":"c","priority":"high","ttl":"3600s",
        "restricted_package_name":"com.example.app","data":{"a":"c"},"direct_boot_ok":true,"bandwidth_constrained_ok":true,
        "restricted_satellite_ok":false,"fcm_options":{"analytics_label":"a"},"notification":{"title":"t","body":"b","icon":"i",
        "color":"#a0B1c2","sound":"s","tag":"g","click_action":"OPEN","title_loc_key":"K","title_loc_args":["x"],
        "body_loc_key":"L","body_loc_args":[],"channel_id":"n","ticker":"k","sticky":true,"event_time":"2026-11-26T10:00:00Z",
        "local_only":false,"notification_priority":"PRIORITY_MAX","default_sound":false,"default_vibrate_timings":false,
        "default_light_settings":false,"vibrate_timings":["0.5s","1s"],"visibility":"SECRET","notification_count":0,
        "light_settings":{"color":{"red":0.5,"green":0,"blue":1,"alpha":1},"light_on_duration":"1s","light_off_duration":"2s"},
        "image":"http://example.com/b.png","proxy":"IF_PRIORITY_LOWERED"}},
        "apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"mutable-content":1,"thread-id":"t"},"mine":[1]},
        "fcm_options":{"analytics_label":"b","image":"https://example.com/c.png"}},
        "webpush":{"headers":{"TTL":"60"},"data":{"a":"b"},"fcm_options":{"link":"https://example.com/"}}}}
        """#

    @Test("every field of a message is accepted, by the strict simulator too")
    func complete() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let answer = try await sender.answer(fixture.message(Self.everything, token: access))
            #expect(answer.status == 200, "\(answer.text)")
        }
    }

    /// The messages' parts beside the token, and the field at fault.
    private static let documented: [(String, String)] = [
        (#""webpush":{"fcm_options":{"link":"http://example.com/"}}"#, "message.webpush.fcm_options.link"),
        (
            #""data":{"a":"b"},"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"content-available":1}}}"#,
            "message.apns.headers.apns-priority"
        ),
        (#""data":{"a":"b"},"apns":{"headers":{"apns-priority":"10"}}"#, "message.apns.headers.apns-priority"),
        (
            #""android":{"notification":{"notification_count":-1}}"#,
            "message.android.notification.notification_count"
        ),
    ]

    /// Those that Google's own senders don't send.
    private static let unsent: [(String, String)] = [
        (#""fcm_options":{"analytics_label":"a b"}"#, "message.fcm_options.analytics_label"),
        (#""fcm_options":{"analytics_label":""}"#, "message.fcm_options.analytics_label"),
        (
            #""android":{"fcm_options":{"analytics_label":"\#(String(repeating: "a", count: 51))"}}"#,
            "message.android.fcm_options.analytics_label"
        ),
        (
            #""apns":{"fcm_options":{"analytics_label":"é"},"payload":{"aps":{"badge":1}}}"#,
            "message.apns.fcm_options.analytics_label"
        ),
        (#""notification":{"title":"T","image":"a.png"}"#, "message.notification.image"),
        (#""android":{"notification":{"image":"file:///a.png"}}"#, "message.android.notification.image"),
        (#""apns":{"fcm_options":{"image":"//example.com/a"},"payload":{"aps":{"badge":1}}}"#, "message.apns.fcm_options.image"),
        (#""android":{"notification":{"title_loc_args":["a"]}}"#, "message.android.notification.title_loc_args"),
        (
            #""android":{"notification":{"title_loc_key":"K","body_loc_args":["a"]}}"#,
            "message.android.notification.body_loc_args"
        ),
        (#""apns":{"payload":{"aps":{"badge":-1}}}"#, "message.apns.payload.aps.badge"),
        (#""apns":{"payload":{"aps":{"alert":{"headline":"h"}}}}"#, "message.apns.payload.aps.alert.headline"),
        (#""apns":{"payload":{"aps":{"badge":1,"mutable-content":1}}}"#, "message.apns.payload.aps.mutable-content"),
        (#""apns":{"payload":{"aps":{"badge":1,"event":"end"}}}"#, "message.apns.payload.aps.event"),
    ]

    @Test("what Firebase's reference forbids is refused, and, by the strict simulator, what Google's own senders don't send")
    func values() async throws {
        for isStrict in [true, false] {
            try await withSimulator({ $0.isStrict = isStrict }) { fixture in
                let sender = try await fixture.connect()
                let access = try await fixture.accessToken(sender)
                for (index, (parts, field)) in (Self.documented + Self.unsent).enumerated() {
                    let body = "{\"message\":{\"token\":\"d\(index)\",\(parts)}}"
                    let answer = try await sender.answer(fixture.message(body, token: access))
                    let isRefused = isStrict || index < Self.documented.count
                    #expect(answer.status == (isRefused ? 400 : 200), "\(parts): \(answer.text)")
                    #expect(answer.text.contains("\"field\":\"\(field)\"") == isRefused, "\(parts): \(answer.text)")
                }
            }
        }
    }

    @Test("the log says which field was at fault")
    func log() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            _ = try await sender.answer(fixture.message(#"{"message":{"token":"d","data":{"a":1}}}"#, token: access))
            #expect(
                fixture.simulator.requests().first?.explanation == "message.data.a: Invalid value: a string is expected")
        }
    }

    @Test("a topic is named without its prefix, and a Live Activity's keys belong to a message for one")
    func targets() async throws {
        let state = #"{"aps":{"event":"end","timestamp":1}}"#
        let activity = #"{"message":{"token":"i1","apns":{"live_activity_token":"t","payload":\#(state)}}}"#
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            for (body, status) in [
                (#"{"message":{"topic":"news","data":{"a":"b"}}}"#, 200),
                (#"{"message":{"topic":"/topics/news","data":{"a":"b"}}}"#, 400), (activity, 200),
            ] {
                #expect(try await sender.answer(fixture.message(body, token: access)).status == status, "\(body)")
            }
        }
    }
}
