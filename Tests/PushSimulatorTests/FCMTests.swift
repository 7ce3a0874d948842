import CampanileCore
import PushSimulator
import Testing

@Suite struct FCMTests {
    @Test("a good message is accepted, named, and shown")
    func good() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let body = """
                {"message":{"token":"d1","notification":{"title":"T","body":"B"},"data":{"id":"n1","badgeVersion":"7"},
                "android":{"priority":"high","ttl":"3600s","collapse_key":"c",
                "notification":{"tag":"t","notification_count":4}}}}
                """
            let answer = try await sender.answer(fixture.message(body, token: access))
            #expect(answer.status == 200)
            guard case .string(let name)? = try JSONValue(parsing: answer.body)["name"] else { throw Sender.Closed() }
            #expect(name.hasPrefix("projects/\(fixture.simulator.credentials.projectID)/messages/"))
            let phone = try #require(fixture.simulator.device("d1"))
            #expect(phone.platform == .android)
            #expect(phone.badge == 4)
            #expect(phone.badgeVersion == 7)
            #expect(phone.notifications.map(\.title) == ["T"])
        }
    }

    @Test("two tokens, and two collapse keys, that only look alike are two")
    func lookalikes() async throws {
        let (composed, decomposed) = ("d\u{E9}", "de\u{301}")
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            func send(to token: String, tag: String = "t") async throws {
                let body = """
                    {"message":{"token":"\(token)","notification":{"title":"T"},"android":{"notification":{"tag":"\(tag)"}}}}
                    """
                #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
            }
            try await send(to: composed)
            try await send(to: decomposed)
            #expect(fixture.simulator.devices().map(\.received) == [1, 1])
            try await send(to: "d", tag: composed)
            try await send(to: "d", tag: decomposed)
            #expect(fixture.simulator.device("d")?.notifications.count == 2)
        }
    }

    private static func alert(_ target: String, _ identifier: String) -> String {
        """
        {"message":{"\(target)":"\(identifier)","notification":{"title":"T"},"data":{"id":"n1"},
        "android":{"notification":{"notification_count":1}}}}
        """
    }

    /// Sends an alert to a `token` or a `fid`; gives the status.
    private static func sender(_ fixture: Fixture) async throws -> (_ target: String, _ identifier: String) async throws -> Int? {
        let sender = try await fixture.connect()
        let access = try await fixture.accessToken(sender)
        return { try await sender.answer(fixture.message(alert($0, $1), token: access)).status }
    }

    @Test("a token and the installation's ID with which it begins are one phone, and an alert to both is a duplicate")
    func installation() async throws {
        try await withSimulator { fixture in
            let send = try await Self.sender(fixture)
            #expect(try await send("token", "fid-1:a") == 200)
            #expect(try await send("fid", "fid-1") == 200)
            // Firebase delivers that too.
            #expect(try await send("token", "fid-1") == 200)
            #expect(try await send("fid", "fid-2") == 200)
            #expect(try await send("token", "fid-2:a") == 200)
            #expect(fixture.simulator.devices().count == 2)
            #expect(fixture.simulator.device("fid-1")?.received == 3 && fixture.simulator.device("fid-2:a")?.received == 2)
            #expect(fixture.simulator.counters.duplicates == 3)
            // Without an ID, tokens that begin alike are two phones.
            for token in ["x:a", "x:b"] { #expect(try await send("token", token) == 200) }
            #expect(fixture.simulator.devices().count == 4)
        }
    }

    @Test("getToken() after an ID was registered ends the ID, and before it does nothing; registering it again revives it")
    func getToken() async throws {
        try await withSimulator { fixture in
            let send = try await Self.sender(fixture)
            #expect(try await send("token", "fid-1:a") == 200)
            fixture.simulator.callGetToken("fid-1:a")
            #expect(try await send("token", "fid-1:a") == 200)
            #expect(try await send("fid", "fid-1") == 200)
            fixture.simulator.callGetToken("fid-1:a")
            #expect(fixture.simulator.device("fid-1")?.installationID == .dead)
            #expect(try await send("fid", "fid-1") == 404)
            fixture.simulator.registerInstallationID("fid-1")
            #expect(try await send("fid", "fid-1") == 200)
        }
    }

    @Test("what FCM refuses is refused, with the field that is at fault")
    func refusals() async throws {
        let messages: [(String, String, String?)] = [
            ("no target", #"{"data":{"a":"b"}}"#, "message"),
            ("two targets", #"{"token":"d","topic":"t"}"#, "message"),
            ("a token and an ID", #"{"token":"d","fid":"d"}"#, "message"),
            ("an ID that is a token", #"{"fid":"d:a"}"#, "message.fid"),
            ("a number in data", #"{"token":"d","data":{"a":1}}"#, "message.data.a"),
            ("a boolean in data", #"{"token":"d","data":{"a":true}}"#, "message.data.a"),
            ("the key from", #"{"token":"d","data":{"from":"x"}}"#, "message.data.from"),
            ("the key message_type", #"{"token":"d","data":{"message_type":"x"}}"#, "message.data.message_type"),
            ("a key google.x", #"{"token":"d","data":{"google.x":"x"}}"#, "message.data.google.x"),
            ("a key gcm1", #"{"token":"d","android":{"data":{"gcm1":"x"}}}"#, "message.android.data.gcm1"),
            ("a ttl that is a number", #"{"token":"d","android":{"ttl":3600}}"#, "message.android.ttl"),
            ("a ttl without s", #"{"token":"d","android":{"ttl":"3600"}}"#, "message.android.ttl"),
            ("a ttl below 0", #"{"token":"d","android":{"ttl":"-1s"}}"#, "message.android.ttl"),
            ("a ttl of more than 4 weeks", #"{"token":"d","android":{"ttl":"2419201s"}}"#, "message.android.ttl"),
            (
                "a count that is a string", #"{"token":"d","android":{"notification":{"notification_count":"3"}}}"#,
                "message.android.notification.notification_count"
            ),
            (
                "a count with a fraction", #"{"token":"d","android":{"notification":{"notification_count":1.5}}}"#,
                "message.android.notification.notification_count"
            ),
            ("an unknown priority", #"{"token":"d","android":{"priority":"urgent"}}"#, "message.android.priority"),
            (
                "an unknown notification priority",
                #"{"token":"d","android":{"notification":{"notification_priority":"high"}}}"#,
                "message.android.notification.notification_priority"
            ),
            ("an unknown field", #"{"token":"d","badge":3}"#, "message.badge"),
            (
                "an unknown field deep inside", #"{"token":"d","android":{"notification":{"badge":3}}}"#,
                "message.android.notification.badge"
            ),
            (
                "a colour by name", #"{"token":"d","android":{"notification":{"color":"red"}}}"#,
                "message.android.notification.color"
            ),
            (
                "an apns header that is a number",
                #"{"token":"d","apns":{"headers":{"apns-priority":5},"payload":{"aps":{}}}}"#,
                "message.apns.headers.apns-priority"
            ),
            ("an apns payload without aps", #"{"token":"d","apns":{"payload":{"x":1}}}"#, "message.apns.payload"),
            ("4,097 bytes", #"{"token":"d","data":{"a":""# + String(repeating: "x", count: 4_096) + #""}}"#, "message"),
            ("an empty token", #"{"token":""}"#, "message.token"),
        ]
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            for (name, message, field) in messages {
                let answer = try await sender.answer(fixture.message("{\"message\":\(message)}", token: access))
                #expect(answer.status == 400, "\(name)")
                #expect(answer.text.contains(#""errorCode":"INVALID_ARGUMENT""#), "\(name)")
                if let field { #expect(answer.text.contains("\"field\":\"\(field)\""), "\(name): \(answer.text)") }
            }
            let fits =
                #"{"message":{"token":"d","data":{"a":""# + String(repeating: "x", count: 4_095)
                + #""},"android":{"ttl":"3.5s"}}}"#
            #expect(try await sender.answer(fixture.message(fits, token: access)).status == 200)
            #expect(try await sender.answer(fixture.message("{\"message\":", token: access)).status == 400)
            #expect(
                try await sender.answer(fixture.message(fits, token: access, contentType: "text/plain")).status == 400)
            #expect(fixture.simulator.devices().count == 1)
        }
    }

    @Test("a missing or unknown access token is 401, an unknown project 404 without FCM's code, another's 403")
    func access() async throws {
        let first = try Fixture.credentials.get()
        let other = try SimulatorCredentials.make(
            topic: "com.other.app", projectID: "other-project", serviceAccountKeyPEM: first.serviceAccountKeyPEM)
        try await withSimulator({ $0.credentials = [first, other] }) { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let body = #"{"message":{"token":"d1","data":{"a":"b"}}}"#
            #expect(try await sender.answer(fixture.message(body, token: nil)).status == 401)
            #expect(try await sender.answer(fixture.message(body, token: "x")).status == 401)
            let unknown = try await sender.answer(fixture.message(body, token: access, project: "nowhere"))
            #expect(unknown.status == 404)
            #expect(unknown.text.contains("NOT_FOUND") && !unknown.text.contains("errorCode"))
            #expect(
                try await sender.answer(fixture.message(body, token: access, project: "other-project")).status == 403)
            fixture.simulator.addDevice("d1", platform: .android, app: "other-project")
            let mismatch = try await sender.answer(fixture.message(body, token: access))
            #expect(mismatch.status == 403)
            #expect(mismatch.text.contains("SENDER_ID_MISMATCH"))
        }
    }

    @Test("a dead token is 404 with UNREGISTERED; a dry run and a topic reach no phone")
    func gone() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let dry = #"{"validate_only":true,"message":{"token":"d1","data":{"a":"b"}}}"#
            let topic = #"{"message":{"topic":"news","data":{"a":"b"}}}"#
            for body in [dry, topic] {
                #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
            }
            #expect(fixture.simulator.devices().isEmpty)
            fixture.simulator.markGone("d1", since: 5)
            let answer = try await sender.answer(
                fixture.message(#"{"message":{"token":"d1","data":{"a":"b"}}}"#, token: access))
            #expect(answer.status == 404)
            #expect(answer.text.contains(#""errorCode":"UNREGISTERED""#))
        }
    }

    @Test("a launcher counts when no number comes; the same tag replaces; a data message sets what the app draws")
    func android() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            func phone(_ message: String) async throws -> Phone {
                let body = "{\"message\":{\"token\":\"d1\",\(message)}}"
                #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
                return try #require(fixture.simulator.device("d1"))
            }
            #expect(
                try await phone(#""notification":{"title":"one"},"android":{"notification":{"tag":"a"}}"#).badge == 1)
            #expect(
                try await phone(#""notification":{"title":"two"},"android":{"notification":{"tag":"b"}}"#).badge == 2)
            let replaced = try await phone(#""notification":{"title":"three"},"android":{"notification":{"tag":"a"}}"#)
            #expect(replaced.notifications.map(\.title) == ["two", "three"])
            #expect(try await phone(#""data":{"type":"badge","count":"9"}"#).badge == 9)
            let cleared = try await phone(#""data":{"type":"badge","count":"0"}"#)
            #expect(cleared.badge == 0 && cleared.notifications.isEmpty)
            #expect(cleared.history.suffix(2).map(\.kind) == [.sync, .clearing])
        }
    }

    @Test("an Android phone that is off gets all of its messages, one for each collapse key, unless they are too old")
    func offline() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            fixture.simulator.addDevice("d1", platform: .android)
            fixture.simulator.setOnline("d1", false)
            for (title, android) in [
                ("one", #"{}"#), ("two", #"{"collapse_key":"k"}"#), ("three", #"{"collapse_key":"k"}"#),
                ("now or never", #"{"ttl":"0s"}"#), ("a minute", #"{"ttl":"60s"}"#),
            ] {
                let body =
                    "{\"message\":{\"token\":\"d1\",\"notification\":{\"title\":\"\(title)\"},\"android\":\(android)}}"
                #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
            }
            fixture.clock.advance(minutes: 2)
            fixture.simulator.setOnline("d1", true)
            #expect(fixture.simulator.device("d1")?.notifications.map(\.title) == ["one", "three"])
        }
    }

    @Test("an iOS device behind FCM gets the apns part")
    func apple() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let body =
                #"{"message":{"token":"i1","apns":{"headers":{"apns-priority":"5"},"payload":{"aps":{"badge":3}}}}}"#
            #expect(try await sender.answer(fixture.message(body, token: access)).status == 200)
            #expect(fixture.simulator.device("i1")?.badge == 3)
            #expect(fixture.simulator.device("i1")?.platform == .ios)
        }
    }

    @Test("each of FCM's codes can be commanded, with its status and Retry-After")
    func faults() async throws {
        let codes: [(String, Int)] = [
            ("UNREGISTERED", 404), ("INVALID_ARGUMENT", 400), ("SENDER_ID_MISMATCH", 403), ("QUOTA_EXCEEDED", 429),
            ("UNAVAILABLE", 503), ("INTERNAL", 500), ("THIRD_PARTY_AUTH_ERROR", 401),
        ]
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let push = fixture.message(#"{"message":{"token":"d1","data":{"a":"b"}}}"#, token: access)
            for (code, status) in codes {
                try fixture.simulator.setFaults(
                    json: #"{"action":{"type":"status","reason":"\#(code)","retry_after":60}}"#)
                let answer = try await sender.answer(push)
                #expect(answer.status == status)
                #expect(answer.text.contains("\"errorCode\":\"\(code)\""))
                #expect(answer.fields["retry-after"] == "60")
            }
            try fixture.simulator.setFaults(
                json: #"{"action":{"type":"status","status":403,"reason":"PERMISSION_DENIED"}}"#)
            let denied = try await sender.answer(push)
            #expect(denied.text.contains(#""status":"PERMISSION_DENIED""#) && !denied.text.contains("errorCode"))
            fixture.simulator.setFaults([FaultRule(.brokenJSON(status: nil))])
            #expect(try await sender.answer(push).status == 200)
        }
    }
}
