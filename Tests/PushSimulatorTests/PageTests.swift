import CampanileCore
import Foundation
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

    @Test("the page is the files of the repository, put into page.html")
    func parts() async throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func file(_ name: String) throws -> String {
            try String(contentsOf: root.appending(path: "Sources/PushSimulator/\(name)"), encoding: .utf8)
        }
        var expected = try file("page.html")
        for name in ["phones.css", "page.css", "phones.js", "page.js"] {
            expected = expected.replacing("/* \(name) */", with: try file(name))
        }
        try await withPage { [expected] _, _, client in
            let isSame = try await client.get("/").body == expected
            #expect(isSame)
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
            let other = String(repeating: "cd", count: 32)
            #expect(try await client.post("/devices/\(other)", #"{"environment":"sandbox","platform":"ios"}"#).status == 200)
            #expect(try await sender.answer(fixture.push(token: other)).verdict == "400 BadDeviceToken")
            #expect(try await client.post("/devices/\(other)", #"{"onlin":true}"#).body.contains("device.onlin is unknown"))
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

    @Test("a browser without fetch metadata tells by Origin whose page commands")
    func origins() async throws {
        try await withPage { fixture, _, client in
            for origin in ["http://attacker.example", "null", "http://127.0.0.1:3000", "https://127.0.0.10", "127.0.0.1"] {
                let answer = try await client.post("/reset", "", ["origin: \(origin)"])
                #expect(answer.status == 403, "\(origin)")
            }
            #expect(fixture.simulator.devices().count == 1)
            let own = "127.0.0.1:\(client.port)"
            #expect(try await client.post("/reset", "", ["origin: http://\(own)"], host: own).status == 200)
        }
    }

    @Test("a name that somebody else pointed at this machine gets neither the page nor a call nor the events")
    func reboundNames() async throws {
        try await withPage { fixture, _, client in
            for host in ["attacker.example", "attacker.example:\(client.port)", "localhost.attacker.example", "192.0.2.1", ""] {
                for path in ["/", "/events", "/devices", "/requests", "/nothing"] {
                    let answer = try await client.get(path, host: host)
                    #expect(answer.status == 421 && answer.body.contains("localhost"), "\(host) \(path)")
                }
                #expect(try await client.post("/reset", host: host).status == 421, "\(host)")
            }
            for head in ["GET /counters HTTP/1.1", "GET /counters HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1"] {
                #expect(try await client.exchange("\(head)\r\nconnection: close\r\n\r\n").status == 421, "\(head)")
            }
            #expect(fixture.simulator.devices().count == 1)
            for host in ["localhost", "LOCALHOST:\(client.port)", "127.0.0.1:\(client.port)", "[::1]", "[::1]:80"] {
                #expect(try await client.get("/counters", host: host).status == 200, "\(host)")
            }
        }
    }

    @Test("who listens on every address is reached at any, and still under no foreign name")
    func everyAddress() async throws {
        try await withSimulator({
            $0.pagePort = 0
            $0.host = "0.0.0.0"
        }) { fixture in
            let client = PageClient(port: try #require(fixture.simulator.pagePort))
            for host in ["0.0.0.0", "192.0.2.1:\(client.port)", "[2001:db8::1]", "localhost"] {
                #expect(try await client.get("/counters", host: host).status == 200, "\(host)")
            }
            for host in ["attacker.example", "192.0.2.1.attacker.example", "192.0.2", "[attacker.example]", "2001:db8::1"] {
                #expect(try await client.get("/counters", host: host).status == 421, "\(host)")
            }
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
