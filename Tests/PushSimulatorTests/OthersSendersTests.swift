import CampanileCore
import PushSimulator
import Testing

/// The pushes that Apple and Google take of senders that aren't Campanile, and that `--strict` doesn't.
@Suite struct OthersSendersTests {
    private func withBoth(_ body: @escaping (Fixture, _ isStrict: Bool) async throws -> Void) async throws {
        for isStrict in [false, true] {
            try await withSimulator({
                $0.isStrict = isStrict
                $0.sandboxPort = 0
            }) { try await body($0, isStrict) }
        }
    }

    @Test("a sender that names no protocol in TLS is served, and turned away by the strict simulator")
    func noALPN() async throws {
        try await withBoth { fixture, isStrict in
            guard isStrict else {
                let sender = try await fixture.connect(protocols: [])
                #expect(try await sender.answer(fixture.push()).verdict == "200")
                #expect(try await sender.settled().limits == [1, 1_000])
                return
            }
            await #expect(throws: Sender.Closed.self) {
                try await fixture.connect(protocols: []).settled()
            }
            await #expect(throws: Sender.Closed.self) {
                try await fixture.connect(protocols: ["http/1.1"]).settled()
            }
            #expect(fixture.simulator.counters.requests == 0)
        }
    }

    @Test("a connection that ends before it has said what it speaks is counted as ended")
    func endsEarly() async throws {
        try await withSimulator({ $0.isStrict = false }) { fixture in
            let sender = try await fixture.connect(protocols: [], preface: "PRI * HT")
            try await lookUntil { fixture.simulator.counters.connections > 0 }
            fixture.simulator.changeCertificate(.leaf)
            try await sender.closed()
            try await lookUntil { fixture.simulator.counters.openConnections == 0 }
            #expect(fixture.simulator.counters.connections == 1)
        }
    }

    @Test("the host of a sender that gives no :authority tells the environment")
    func hostField() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let push = try fixture.push([":authority": nil, "host": "api.development.push.apple.com"])
            #expect(try await sender.answer(push).verdict == "200")
            #expect(fixture.simulator.device(Fixture.token)?.environment == .sandbox)
        }
    }

    @Test("apns-unique-id comes with what the sandbox accepts, and with nothing else")
    func uniqueID() async throws {
        try await withBoth { fixture, _ in
            let sandbox = try await fixture.connect(environment: .sandbox)
            let first = try await sandbox.answer(fixture.push()).fields["apns-unique-id"]
            let second = try await sandbox.answer(fixture.push()).fields["apns-unique-id"]
            #expect(first?.utf8.count == 36 && second?.utf8.count == 36 && first != second)
            let refused = try await sandbox.answer(fixture.push(["apns-priority": "7"]))
            #expect(refused.verdict == "400 BadPriority" && refused.fields["apns-unique-id"] == nil)
            fixture.simulator.markGone(Fixture.token, since: 1)
            #expect(try await sandbox.answer(fixture.push()).fields["apns-unique-id"] == nil)
            let production = try await fixture.connect()
            let other = String(repeating: "cd", count: 32)
            let answer = try await production.answer(fixture.push(token: other))
            #expect(answer.verdict == "200" && answer.fields["apns-unique-id"] == nil)
        }
    }

    @Test("a device token of less than 64 digits is bad, a longer one may come to be")
    func deviceTokens() async throws {
        let lengths = [
            2: "400 BadDeviceToken", 62: "400 BadDeviceToken", 63: "400 BadDeviceToken", 64: "200",
            65: "400 BadDeviceToken", 160: "200", 200: "200", 202: "400 BadDeviceToken",
        ]
        try await withBoth { fixture, _ in
            let sender = try await fixture.connect()
            for (length, verdict) in lengths {
                let token = String(repeating: "a", count: length)
                #expect(try await sender.answer(fixture.push(token: token)).verdict == verdict, "\(length)")
            }
        }
    }

    @Test("no push type, and a provider token signed in DER, are taken, and not by the strict simulator")
    func looseAPNs() async throws {
        try await withBoth { fixture, isStrict in
            let sender = try await fixture.connect()
            let untyped = try await sender.answer(fixture.push(["apns-push-type": nil]))
            #expect(untyped.verdict == (isStrict ? "400 InvalidPushType" : "200"))
            let silent = try await sender.answer(
                fixture.push(payload: #"{"aps":{"content-available":1}}"#, ["apns-push-type": nil]))
            #expect(silent.verdict == (isStrict ? "400 InvalidPushType" : "200"))
            #expect(try await sender.answer(fixture.push(["apns-push-type": "loud"])).verdict == "400 InvalidPushType")
            let other = try await sender.answer(fixture.push(["apns-push-type": nil, "apns-topic": "com.other.app"]))
            #expect(other.verdict == (isStrict ? "400 InvalidPushType" : "400 TopicDisallowed"))
            let signed = try fixture.push(["authorization": fixture.bearer(isDER: true)])
            #expect(try await sender.answer(signed).verdict == (isStrict ? "403 InvalidProviderToken" : "200"))
        }
    }

    @Test("Google's other scope is taken, alone or in a list, and not by the strict simulator; what isn't for FCM never is")
    func scopes() async throws {
        let google = "https://www.googleapis.com/auth/"
        let cloud = "\(google)cloud-platform"
        try await withBoth { fixture, isStrict in
            let sender = try await fixture.connect()
            func status(_ scope: String) async throws -> Int? {
                try await sender.answer(fixture.tokenRequest(fixture.assertion(scope: scope))).status
            }
            #expect(try await status(cloud) == (isStrict ? 400 : 200))
            #expect(try await status("\(cloud) \(google)datastore \(google)userinfo.email") == (isStrict ? 400 : 200))
            #expect(try await status("\(google)userinfo.email \(google)firebase.messaging") == 200)
            #expect(try await status("\(google)userinfo.email \(google)datastore") == 400)
            #expect(try await status("\(cloud).read-only") == 400)
            #expect(try await status("") == 400)
        }
    }

    @Test("FCM's fields may be named in camel case, hold null, and numbers in texts, and not at the strict simulator")
    func looseFCM() async throws {
        let body = """
            {"validateOnly":false,"message":{"token":"d1","data":null,"notification":{"title":"T"},
            "android":{"collapseKey":"c","ttl":"60s","notification":{"notificationCount":"4","tag":"t",
            "vibrateTimings":["1s"],"lightSettings":{"lightOnDuration":"1s"}}}}}
            """
        try await withBoth { fixture, isStrict in
            let sender = try await fixture.connect()
            let access = try await fixture.accessToken(sender)
            let answer = try await sender.answer(fixture.message(body, token: access))
            #expect(answer.status == (isStrict ? 400 : 200), "\(answer.text)")
            #expect(fixture.simulator.device("d1")?.badge == (isStrict ? nil : 4))
            #expect(answer.text.contains("validateOnly") == isStrict)
            for wrong in [
                #"{"message":{"token":"d1","data":{"a":1}}}"#, #"{"message":{"token":"d1","Data":{"a":"b"}}}"#,
                #"{"message":{"token":"d1","android":{"notification":{"notificationCount":"x"}}}}"#,
                #"{"message":{"token":"d1","android":{"collapseKey":"c","collapse_key":"d"}}}"#,
            ] {
                #expect(try await sender.answer(fixture.message(wrong, token: access)).status == 400, "\(wrong)")
            }
            // What an app's own data and payload are called is its own business.
            let own = """
                {"message":{"token":"i1","data":{"myKey":"7"},"apns":{"payload":{"aps":{"badge":2},"badgeVersion":7}}}}
                """
            #expect(try await sender.answer(fixture.message(own, token: access)).status == 200)
            #expect(fixture.simulator.device("i1")?.badgeVersion == 7)
        }
    }
}
