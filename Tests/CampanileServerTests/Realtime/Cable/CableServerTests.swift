import CampanileCore
import HTTPEngine
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// The cable of a whole server: what a Rails page and an app of one user see.
@Suite("The cable of a server", .endsIfItHangs)
struct CableServerTests {
    private static let key = Secret("a signing key of thirty-two bytes or more")

    private func signed(_ name: String) -> String {
        let signed = SignedStreamName.sign(name, key: SignedStreamName.Key(Self.key.exposed.utf8))
        return #"{"channel":"Turbo::StreamsChannel","signed_stream_name":"\#(signed)"}"#
    }

    private func connect(
        _ server: RunningServer, as credential: String?, headers: [String: String] = [:]
    ) async throws -> WebSocketClient {
        var headers = headers
        if let credential { headers["Authorization"] = credential }
        let (client, head) = try await WebSocketClient.open(port: server.client.port, headers: headers)
        #expect(head.first == "HTTP/1.1 101 Switching Protocols")
        #expect(head.contains("Sec-WebSocket-Protocol: actioncable-v1-json"))
        #expect(head.contains { $0.hasPrefix("X-Request-Id: ") })
        return client
    }

    private func html(_ frame: ReceivedFrame?) -> String? { frame?.json?["message"]?.string }

    @Test("a page subscribed to a signed stream gets the badge, then every change of it")
    func turbo() async throws {
        try await withServer({ $0.cable.keys.signedStreamKey = Self.key }) { server in
            let page = try await connect(server, as: try await server.user())
            #expect(try await page.said()?.text == #"{"type":"welcome"}"#)
            try await page.send(ClientFrame.subscribe(signed("notifications:alice")))
            let confirmation = try await page.said()?.json
            #expect(confirmation?["type"]?.string == "confirm_subscription")
            #expect(confirmation?["identifier"]?.string == signed("notifications:alice"))
            #expect(html(try await page.said())?.contains("<template>0</template>") == true)
            _ = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"A"}"#, as: try server.producer())
            let frame = try await page.said()
            #expect(
                html(frame)
                    == #"<turbo-stream action="update" target="notification-badge-count"><template>1</template></turbo-stream>"#)
            #expect(frame?.text.contains(#"\u003cturbo-stream action"#) == true)
        }
    }

    @Test("the user's channel carries everything that happens, under the ids of the event stream")
    func notifications() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let app = try await connect(server, as: try await server.user())
            _ = try await app.said()
            try await app.send(ClientFrame.subscribe(#"{"channel":"NotificationsChannel"}"#))
            #expect(try await app.said()?.json?["type"]?.string == "confirm_subscription")
            let present = try await app.said()?.json?["message"]
            #expect(present?["event"]?.string == "badge" && present?["data"]?["count"]?.int == 0)
            let answer = try await server.client.post("/notifications", #"{"user_id":"alice","title":"A"}"#, as: producer)
            let created = try await app.said()?.json?["message"]
            let id = try answer.json["id"]
            #expect(created?["event"]?.string == "notification.created" && created?["data"]?["id"] == id)
            #expect(Int64(created?["id"]?.string ?? "") ?? 0 > Int64(present?["id"]?.string ?? "") ?? 0)
            #expect(try await app.said()?.json?["message"]?["data"]?["count"]?.int == 1)
        }
    }

    @Test("a burst of notifications reaches a client that reads, whole and in order")
    func burst() async throws {
        try await withServer { server in
            let app = try await connect(server, as: try await server.user())
            _ = try await app.said()
            try await app.send(ClientFrame.subscribe(#"{"channel":"NotificationsChannel"}"#))
            _ = try await (app.said(), app.said())
            let operations = try server.operations()
            var ids: [String] = []
            for _ in 0..<60 {
                let body = String(repeating: "x", count: 2_000)
                ids.append("\(try await operations.notify(user: "alice", app: "default", title: "A", body: body))")
            }
            operations.close()
            try server.app.database.pollForeignChange()
            var told: [String] = []
            while told.count < ids.count, let message = try await app.said()?.json?["message"] {
                if message["event"]?.string == "notification.created" { told.append(message["data"]?["id"]?.string ?? "") }
            }
            #expect(told == ids)
            #expect(server.app.realtime.cable.counts.cutOff == 0)
        }
    }

    @Test("without a token, and with a wrong one, the connection is told unauthorized and ended")
    func unauthorized() async throws {
        try await withServer { server in
            for credential in [nil, "Bearer x.y.z", try server.producer()] {
                let client = try await connect(server, as: credential)
                #expect(
                    try await client.said()?.text == #"{"type":"disconnect","reason":"unauthorized","reconnect":false}"#)
                #expect(try await client.said()?.closeCode == 1_000)
            }
        }
    }

    @Test("with signed streams only, a connection without a token gets signed streams and no others")
    func signedOnly() async throws {
        try await withServer({
            $0.cable.keys.signedStreamKey = Self.key
            $0.cable.signedStreamsOnly = true
        }) { server in
            let page = try await connect(server, as: nil)
            #expect(try await page.said()?.json?["type"]?.string == "welcome")
            try await page.send(ClientFrame.subscribe(#"{"channel":"NotificationsChannel"}"#))
            #expect(try await page.said()?.json?["type"]?.string == "reject_subscription")
            let tampered = signed("notifications:alice").replacing("--", with: "--0")
            try await page.send(ClientFrame.subscribe(tampered))
            #expect(try await page.said()?.json?["type"]?.string == "reject_subscription")
            try await page.send(ClientFrame.subscribe(signed("notifications:nobody was ever told anything")))
            #expect(try await page.said()?.json?["type"]?.string == "confirm_subscription")
            #expect(html(try await page.said())?.contains("<template>0</template>") == true)
        }
    }

    @Test("a page of a foreign origin is refused, and what is no WebSocket is told what to do")
    func refusals() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let (_, foreign) = try await WebSocketClient.open(
                port: server.client.port, headers: ["Authorization": alice, "Origin": "https://evil.example"])
            #expect(foreign.first == "HTTP/1.1 403 Forbidden")
            let plain = try await server.client.get("/cable", as: alice)
            #expect(plain.status == 426 && plain.code == "upgrade_required")
            #expect(plain.header("sec-websocket-version") == "13" && plain.header("upgrade") == "websocket")
            #expect(server.app.realtime.quota.takenCount == 0)
        }
    }

    @Test("a revoked user's connection is ended for good, another's goes on")
    func revocation() async throws {
        try await withServer { server in
            let alice = try await connect(server, as: try await server.user())
            let bob = try await connect(server, as: try await server.user("bob"))
            _ = try await (alice.said(), bob.said())
            let operations = try server.operations()
            try operations.revoke(user: "alice", app: "default")
            operations.close()
            try server.app.database.pollForeignChange()
            #expect(try await alice.said()?.json?["reconnect"] == .bool(false))
            try await bob.send(ClientFrame.subscribe(#"{"channel":"NotificationsChannel"}"#))
            #expect(try await bob.said()?.json?["type"]?.string == "confirm_subscription")
        }
    }

    @Test("a stop asks every client to come back; a connection that is gone gives its slot back")
    func quota() async throws {
        let server = try await RunningServer { $0.streams.perUser = 1 }
        let alice = try await server.user()
        do {
            let client = try await connect(server, as: alice)
            _ = try await client.said()
            let (_, refused) = try await WebSocketClient.open(
                port: server.client.port, headers: ["Authorization": alice])
            #expect(refused.first == "HTTP/1.1 429 Too Many Requests")
        }
        try await server.untilStreams(atMost: 0)
        let client = try await connect(server, as: alice)
        _ = try await client.said()
        async let stopped: Void = server.stop()
        #expect(
            try await client.said()?.text == #"{"type":"disconnect","reason":"server_restart","reconnect":true}"#)
        #expect(try await client.said()?.closeCode == 1_000)
        await stopped
    }
}

extension WebSocketClient {
    /// The next frame that is no ping of the protocol.
    func said() async throws -> ReceivedFrame? {
        while let frame = try await frame() {
            if frame.json?["type"]?.string != "ping" { return frame }
        }
        return nil
    }
}
