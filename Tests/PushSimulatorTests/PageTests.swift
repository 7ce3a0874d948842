import CampanileCore
import PushSimulator
import Testing

@Suite struct PageTests {
    /// A simulator with a page, one push to it, and a client of the page.
    private func withPage(_ body: (Fixture, Sender, PageClient) async throws -> Void) async throws {
        try await withSimulator({ $0.pagePort = 0 }) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            try await body(fixture, sender, PageClient(port: try #require(fixture.simulator.pagePort)))
        }
    }

    private func json(_ answer: PageClient.Answer) throws -> JSONValue {
        try JSONValue(parsing: Array(answer.body.utf8))
    }

    @Test("the page is one text that asks nobody else for anything")
    func page() async throws {
        try await withPage { _, _, client in
            let answer = try await client.get("/")
            #expect(answer.status == 200)
            #expect(answer.head.lowercased().contains("content-security-policy: default-src 'none'"))
            #expect(answer.body.contains("export function phone("))
            #expect(answer.body.contains("new EventSource(\"/events\")"))
            #expect(answer.body.contains(".phone-badge"))
            #expect(
                !answer.body.contains("http://") && !answer.body.contains("https://")
                    && !answer.body.contains("@import"))
            #expect(!answer.body.contains("/* phones.js */"))
        }
    }

    @Test("devices, counters and requests are there as JSON")
    func reading() async throws {
        try await withPage { fixture, _, client in
            let devices = try await json(client.get("/devices"))
            guard case .array(let list)? = devices["devices"] else { throw PageClient.Broken() }
            #expect(list.count == 1)
            #expect(list.first?["badge"] == 3)
            #expect(list.first?["state"] == "known")
            #expect(try await json(client.get("/devices/\(Fixture.token)"))["online"] == true)
            #expect(try await client.get("/devices/none").status == 404)
            #expect(try await json(client.get("/counters"))["accepted"] == 1)
            let requests = try await client.get("/requests?limit=1")
            #expect(requests.body.contains("apns-topic") && !requests.body.contains("bearer"))
            #expect(try await client.get("/requests?limit=x").status == 400)
            #expect(try await client.get("/nothing").status == 404)
            #expect(try await client.delete("/counters").status == 405)
        }
    }

    @Test("a page of another origin may read the phones and their events, and nothing else")
    func elsewhere() async throws {
        try await withPage { _, _, client in
            let allow = "access-control-allow-origin: *"
            #expect(try await client.get("/devices?limit=5").head.lowercased().contains(allow))
            for path in ["/", "/counters", "/requests", "/devices/\(Fixture.token)"] {
                #expect(try await !client.get(path).head.lowercased().contains("access-control"), "\(path)")
            }
            let changed = try await client.post("/devices/\(Fixture.token)", #"{"online":false}"#)
            #expect(!changed.head.lowercased().contains("access-control"))
        }
    }

    @Test("phones are switched off, killed and made by a call")
    func devices() async throws {
        try await withPage { fixture, sender, client in
            #expect(try await json(client.post("/devices/\(Fixture.token)", #"{"online":false}"#))["online"] == false)
            _ = try await sender.answer(fixture.push(payload: #"{"aps":{"badge":8}}"#))
            #expect(fixture.simulator.device(Fixture.token)?.badge == 3)
            #expect(try await json(client.post("/devices/\(Fixture.token)", #"{"online":true}"#))["badge"] == 8)
            #expect(
                try await client.post("/devices/\(Fixture.token)", #"{"state":"gone","gone_since_ms":17}"#).status
                    == 200)
            #expect(try await sender.answer(fixture.push()).text.contains("17"))
            #expect(try await client.post("/devices/aa", #"{"environment":"sandbox","platform":"ios"}"#).status == 200)
            #expect(try await sender.answer(fixture.push(token: "aa")).verdict == "400 BadDeviceToken")
            #expect(try await client.post("/devices/aa", #"{"onlin":true}"#).body.contains("device.onlin is unknown"))
        }
    }

    @Test("faults, clock, certificate and reset are commanded by calls")
    func commands() async throws {
        try await withPage { fixture, sender, client in
            let fault = #"[{"action":{"type":"status","reason":"Shutdown"}}]"#
            #expect(try await client.post("/faults", fault).status == 200)
            #expect(try await sender.answer(fixture.push()).verdict == "503 Shutdown")
            #expect(try await client.get("/faults").body.contains(#""happened":1"#))
            #expect(
                try await client.post("/faults", #"{"action":{"type":"x"}}"#).body.contains(
                    "rule.action.type is unknown: x."))
            #expect(try await client.post("/faults", "[").status == 400)
            #expect(try await client.delete("/faults").status == 200)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(try await client.post("/clock", #"{"advance_ms":3601000}"#).status == 200)
            #expect(try await sender.answer(fixture.push()).verdict == "403 ExpiredProviderToken")
            #expect(try await client.post("/certificate", #"{"change":"leaf"}"#).status == 200)
            try await sender.closed()
            #expect(try await client.post("/reset").status == 200)
            #expect(fixture.simulator.devices().isEmpty)
        }
    }

    @Test("a page of another site may look and not command")
    func foreign() async throws {
        try await withPage { fixture, _, client in
            let answer = try await client.post("/reset", "", ["sec-fetch-site: cross-site"])
            #expect(answer.status == 403)
            #expect(fixture.simulator.devices().count == 1)
            #expect(try await client.post("/reset", "", ["sec-fetch-site: same-origin"]).status == 200)
        }
    }

    @Test("who watches hears of every change")
    func events() async throws {
        try await withPage { fixture, sender, client in
            let stream = try PageStream(port: client.port)
            try stream.write("GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            let head = try await blocking { try stream.read { $0.contains("retry:") } }
            #expect(head.contains("text/event-stream"))
            _ = try await sender.answer(fixture.push(payload: #"{"aps":{"badge":42}}"#))
            let news = try await blocking {
                try stream.read {
                    $0.contains("event: device") && $0.contains(#""badge":42"#) && $0.contains("event: counters")
                }
            }
            #expect(news.contains(Fixture.token))
        }
    }
}
