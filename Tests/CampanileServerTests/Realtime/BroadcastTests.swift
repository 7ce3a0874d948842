import CampanileCore
import Crypto
import HTTPEngine
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// An app's broadcasts, from its call to its pages, through a whole server.
@Suite("an app's broadcasts", .endsIfItHangs) struct BroadcastTests {
    private static let key = Secret("a signing key of thirty-two bytes or more")
    private static let secret = Secret("the secret of AnyCable's gem")

    private static func identifier(_ name: String = "messages") -> String {
        let signed = SignedStreamName.sign(name, key: SignedStreamName.Key(key.exposed.utf8))
        return #"{"channel":"Turbo::StreamsChannel","signed_stream_name":"\#(signed)"}"#
    }

    private func serve(
        _ change: @escaping @Sendable (inout Configuration) -> Void = { _ in },
        _ body: @escaping @Sendable (RunningServer) async throws -> Void
    ) async throws {
        try await withServer(
            {
                $0.cable.keys.signedStreamKey = Self.key
                $0.cable.keys.anyCableSecret = Self.secret
                change(&$0)
            }, body)
    }

    /// A page that is welcomed.
    private func page(_ server: RunningServer, isExtended: Bool = true, as user: String = "alice") async throws -> (
        client: WebSocketClient, sid: String?
    ) {
        let protocols = isExtended ? "actioncable-v1-ext-json, actioncable-v1-json" : "actioncable-v1-json"
        let (client, _) = try await WebSocketClient.open(
            port: server.client.port, protocols: protocols, headers: ["Authorization": try await server.user(user)])
        return (client, try await client.said()?.json?["sid"]?.string)
    }

    private func subscribe(
        _ client: WebSocketClient, to name: String = "messages", from position: (epoch: String, offset: Int64)? = nil
    ) async throws {
        var members: [JSONValue.Member] = [.init("command", "subscribe"), .init("identifier", .string(Self.identifier(name)))]
        if let position {
            let place = JSONValue.object([.init("offset", .integer(position.offset)), .init("epoch", .string(position.epoch))])
            members.append(.init("history", .object([.init("streams", .object([.init(name, place)]))])))
        }
        try await client.send(ClientFrame.bytes(1, JSONValue.object(members).text))
        #expect(try await client.said()?.json?["type"] == "confirm_subscription")
    }

    private func broadcast(_ server: RunningServer, _ key: String, _ texts: String..., to name: String = "messages") async throws
    {
        let all = texts.map { JSONValue.object([.init("stream", .string(name)), .init("data", .string($0))]) }
        let answer = try await server.client.post(
            "/broadcasts", String(decoding: JSONValue.array(all).text, as: UTF8.self), as: key)
        #expect(answer.status == 202, "\(String(decoding: answer.body, as: UTF8.self))")
        #expect(try answer.json["accepted"]?.int == Int64(texts.count))
    }

    private func position(_ server: RunningServer, _ key: String) async throws -> (epoch: String, offset: Int64) {
        let json = try await server.client.get("/broadcasts/position", as: key).json
        return (json["epoch"]?.string ?? "", json["offset"]?.int ?? -1)
    }

    @Test("every page of the stream gets what is broadcast, in order, and no other page")
    func live() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let (extended, plain, other) = (
                try await page(server).client, try await page(server, isExtended: false).client, try await page(server).client
            )
            for client in [extended, plain] { try await subscribe(client) }
            try await subscribe(other, to: "elsewhere")
            try await broadcast(server, key, "<b>1</b>", "2")
            try await broadcast(server, key, "x", to: "elsewhere")
            try await broadcast(server, key, "3")
            let (epoch, offset) = try await position(server, key)
            #expect(offset == 4)
            for (text, offset) in [("<b>1</b>", 1), ("2", 2), ("3", 4)] as [(String, Int64)] {
                let message = try await extended.said()?.json
                #expect(message?["message"] == .string(text) && message?["stream_id"] == "messages")
                #expect(message?["epoch"] == .string(epoch) && message?["offset"]?.int == offset)
                #expect(try await plain.said()?.json?["message"] == .string(text))
            }
            #expect(try await other.said()?.json?["message"] == "x")
        }
    }

    @Test("a client that comes back gets what it missed once, in order, and what comes after it; one too far behind is told")
    func resumes() async throws {
        try await serve({ $0.broadcasts.perStream = 3 }) { server in
            let key = try server.broadcaster()
            let (epoch, _) = try await position(server, key)
            try await broadcast(server, key, "1", "2", "3")
            let first = try await page(server).client
            try await subscribe(first, from: (epoch, 1))
            for text in ["2", "3"] { #expect(try await first.said()?.json?["message"] == .string(text)) }
            #expect(try await first.said()?.json?["type"] == "confirm_history")
            try await broadcast(server, key, "4")
            #expect(try await first.said()?.json?["message"] == "4")
            for place in [(epoch, 0), (epoch, 9), ("another", 1)] as [(String, Int64)] {
                let late = try await page(server).client
                try await subscribe(late, from: place)
                #expect(try await late.said()?.json?["type"] == "reject_history")
            }
            let upToDate = try await page(server).client
            try await subscribe(upToDate, from: (epoch, 4))
            #expect(try await upToDate.said()?.json?["type"] == "confirm_history")
        }
    }

    @Test(
        "nothing is missed and nothing comes twice while it is broadcast and clients come back, and come back, and over a restart"
    )
    func coming() async throws {
        let (folder, clock) = (TemporaryFolder(), HandClock())
        let texts = (0..<200).map(String.init)
        var (epoch, offset, heard): (String, Int64, [String]) = ("", 0, [])
        for half in [texts[..<100], texts[100...]] {
            let server = try await RunningServer(folder: folder, clock: clock) { $0.cable.keys.signedStreamKey = Self.key }
            try await stopping(server) { server in
                let key = try server.broadcaster("pages \(half.startIndex)".replacing(" ", with: "-"))
                if epoch.isEmpty { (epoch, offset) = try await position(server, key) }
                let sender = Task { for text in half { try await broadcast(server, key, text) } }
                while heard.count < half.endIndex {
                    let client = try await page(server).client
                    try await subscribe(client, from: (epoch, offset))
                    // A while, and then its connection is lost.
                    for _ in 0..<20 where heard.count < half.endIndex {
                        guard let message = try await client.said()?.json, message["type"] == nil else { continue }
                        heard.append(message["message"]?.string ?? "")
                        offset = message["offset"]?.int ?? 0
                    }
                }
                try await sender.value
            }
        }
        #expect(heard == texts)
    }

    @Test("only a broadcast key broadcasts, to its own app's streams alone, and does nothing else")
    func keys() async throws {
        try await serve { server in
            let body = #"{"stream":"messages","data":"x"}"#
            for (path, method) in [("/broadcasts", "POST"), ("/broadcasts/position", "GET")] {
                for credential in [try server.producer("a\(method)"), try server.operator("b\(method)"), try await server.user()]
                {
                    let answer = try await server.client.send(method, path, as: credential, body: method == "POST" ? body : nil)
                    #expect(answer.status == 403)
                }
            }
            let own = try server.broadcaster()
            #expect(try await server.client.post("/notifications", #"{"user_id":"a","title":"T"}"#, as: own).status == 403)
            #expect(try await server.client.get("/badge", as: own).status == 403)
            let page = try await page(server).client
            try await subscribe(page)
            let foreign = try server.broadcaster("elsewhere", app: "shop")
            try await broadcast(server, foreign, "foreign")
            try await broadcast(server, own, "own")
            #expect(try await page.said()?.json?["message"] == "own")
            #expect(try await position(server, foreign).epoch != position(server, own).epoch)
        }
    }

    @Test("every mistake is named with its place, and nothing is broadcast then; an id goes once")
    func mistakes() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let long = String(repeating: "x", count: Limits.broadcastBytes + 1)
            let entries = Array(repeating: #"{"stream":"a","data":"x"}"#, count: 101).joined(separator: ",")
            for (body, fields) in [
                ("[]", [""]), ("[\(entries)]", [""]), ("[1]", ["[0]"]), (#"{"stream":"a"}"#, ["data"]),
                (
                    #"[{"stream":"a","data":"x"},{"stream":"","data":1,"id":"","x":1}]"#,
                    ["[1].data", "[1].id", "[1].stream", "[1].x"]
                ),
                (#"{"stream":"notifications:alice","data":"x"}"#, ["stream"]), (#"{"stream":"a","data":"\#(long)"}"#, ["data"]),
            ] {
                let answer = try await server.client.post("/broadcasts", body, as: key)
                #expect(
                    answer.status == 422 && answer.errorFields.sorted() == fields, "\(body.prefix(80)): \(answer.errorFields)")
            }
            #expect(try await server.client.post("/broadcasts", "1", as: key).status == 400)
            #expect(try await position(server, key).offset == 0)
            for _ in 0..<2 {
                let answer = try await server.client.post("/broadcasts", #"{"stream":"a","data":"x","id":"once"}"#, as: key)
                #expect(try answer.status == 202 && answer.json["accepted"]?.int == 1)
            }
            #expect(try await position(server, key).offset == 1)
        }
    }

    @Test("AnyCable's form takes its gem's key or ours, carries JSON, and leaves out the connection that it names")
    func anyCable() async throws {
        try await serve { server in
            let mac = HMAC<SHA256>.authenticationCode(
                for: Array("broadcast-cable".utf8), using: SymmetricKey(data: Array(Self.secret.exposed.utf8)))
            let (derived, own) = ("Bearer " + Hex.encode(mac), try server.broadcaster())
            let (sender, sid) = try await page(server)
            let other = try await page(server).client
            for client in [sender, other] { try await subscribe(client) }
            let excluding =
                #"{"stream":"messages","data":"{\"n\":1}","meta":{"exclude_socket":"\#(sid ?? "")","broadcast_type":"x"}}"#
            #expect(try await server.client.post("/_broadcast", excluding, as: derived).status == 201)
            #expect(
                try await server.client.post("/_broadcast", #"[{"stream":"messages","data":"plain <text>"}]"#, as: own).status
                    == 201)
            #expect(try await sender.said()?.json?["message"] == "plain <text>")
            #expect(try await other.said()?.json?["message"] == .object([.init("n", .integer(1))]))
            #expect(try await other.said()?.json?["message"] == "plain <text>")
            #expect(try await server.client.post("/_broadcast", excluding, as: "Bearer wrong").status == 401)
            #expect(try await server.client.post("/_broadcast", excluding, as: try server.producer()).status == 403)
            // The sender would drop all of a call that is refused.
            let mixed =
                #"[{"stream":"notifications:a","data":"1"},{"stream":"messages","data":"2","meta":{"exclude_socket":"x\u0000"}}]"#
            #expect(try await server.client.post("/_broadcast", mixed, as: own).status == 201)
            for page in [sender, other] { #expect(try await page.said()?.json?["message"] == .integer(2)) }
            for broken in [#"{\"a\":1,\"a\":2}"#, "[1"] {
                let answer = try await server.client.post("/_broadcast", #"{"stream":"messages","data":"\#(broken)"}"#, as: own)
                #expect(answer.status == 422 && answer.errorFields == ["data"])
            }
            #expect(try await server.client.post("/broadcasts", #"{"stream":"a","data":"x"}"#, as: derived).status == 401)
        }
    }

    @Test("a burst of large messages comes to every page, whole and in order, and cuts nobody off")
    func burst() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let pages = [try await page(server).client, try await page(server, isExtended: false, as: "bob").client]
            for page in pages { try await subscribe(page) }
            let text = String(repeating: "x", count: 60_000)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        let four: String = (0..<4).map { _ in #"{"stream":"messages","data":"\#(text)"}"# }.joined(separator: ",")
                        let answer = try await server.client.post("/broadcasts", "[\(four)]", as: key)
                        #expect(answer.status == 202)
                    }
                }
                try await group.waitForAll()
            }
            for number in 1...12 { #expect(try await pages[0].said()?.json?["offset"]?.int == Int64(number)) }
            for _ in 1...12 { #expect(try await pages[1].said()?.json?["message"]?.string == text) }
        }
    }

    @Test("a page that subscribes again and again misses nothing")
    func subscribingAgain() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let (client, _) = try await page(server, isExtended: false)
            try await subscribe(client)
            let again = JSONValue.object([.init("command", "subscribe"), .init("identifier", .string(Self.identifier()))])
            for number in 0..<50 {
                try await client.send(ClientFrame.bytes(1, again.text))
                let message = #"{"stream":"messages","data":"\#(number)"}"#
                #expect(try await server.client.post("/broadcasts", message, as: key).status == 202)
            }
            var heard: [String] = []
            while heard.count < 50, let said = try await client.said()?.json {
                if let text = said["message"]?.string { heard.append(text) }
            }
            #expect(heard == (0..<50).map { "\($0)" })
        }
    }

    @Test("whoever joins where the database ends before what others were sent waits for what comes")
    func shortSeries() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let first = try await page(server).client
            try await subscribe(first)
            for text in ["1", "2", "3"] {
                #expect(
                    try await server.client.post("/broadcasts", #"{"stream":"messages","data":"\#(text)"}"#, as: key).status
                        == 202)
                #expect(try await first.said()?.json?["message"]?.string == text)
            }
            // A failover to a standby that was behind leaves the series so.
            let file = try Database(path: server.configuration.database)
            try file.writeBlocking { transaction in
                try transaction.connection.script(
                    "UPDATE broadcast_series SET last_sequence = 1; DELETE FROM broadcasts WHERE sequence > 1")
            }
            file.close()
            let second = try await page(server, as: "bob").client
            try await subscribe(second)
            try await second.send(ClientFrame.bytes(9, [1]))
            #expect(try await second.said() == .pong([1]))
        }
    }

    @Test("the overview tells an operator of the app alone which streams have listeners")
    func overview() async throws {
        try await serve { server in
            let key = try server.operator()
            func streams(_ key: String) async throws -> JSONValue? {
                try await server.client.get("/operate/overview", as: key).json["streams"]
            }
            #expect(try await streams(key)?["count"]?.int == 0)
            let pages = [try await page(server).client, try await page(server, as: "bob").client]
            for page in pages { try await subscribe(page) }
            try await subscribe(pages[0], to: "other")
            let seen = try #require(try await streams(key))
            #expect(seen["count"]?.int == 2 && seen["listeners"]?.int == 3)
            #expect(seen["most_heard"]?.array.map { $0["stream"]?.string } == ["messages", "other"])
            #expect(seen["most_heard"]?.array.map { $0["listeners"]?.int } == [2, 1])
            #expect(try await streams(try server.operator("foreign", app: "shop"))?["count"]?.int == 0)
            pages[0].finishSending()
            try await lookUntil { try await streams(key)?["count"]?.int == 1 }
        }
    }

    @Test("the doctor's test broadcast comes to the pages of the stream that it names")
    func doctor() async throws {
        try await serve { server in
            let (client, _) = try await page(server)
            try await subscribe(client)
            let doctor = Doctor(server.configuration, world: server.world, logger: Fixture.silent)
            let findings = try await doctor.broadcast(to: "messages", app: "default")
            #expect(findings.map(\.subject) == ["stream", "broadcast"] && findings.allSatisfy(\.isGood))
            let signed = SignedStreamName.sign("messages", key: SignedStreamName.Key(Self.key.exposed.utf8))
            #expect(findings[0].sentence.contains(signed) && findings[1].sentence.contains("number 1 of"))
            // Another process wrote it: the server watches its file.
            #expect(try await client.said()?.json?["message"]?.string == "<!-- campanile doctor -->")
            await #expect(throws: OperatorError.self) { try await doctor.broadcast(to: "notifications:alice", app: "default") }
            let foreign = try await doctor.broadcast(to: "messages", app: "shop")
            #expect(foreign.map(\.isGood) == [false, true] && foreign[0].sentence.contains("apps.shop.cable.signed_stream_key"))
        }
    }

    @Test("AnyCable's disconnect ends the connections of the user whom it names, and no others")
    func disconnects() async throws {
        try await serve { server in
            let key = try server.broadcaster()
            let (alice, bob) = (try await page(server).client, try await page(server, as: "bob").client)
            try await subscribe(bob)
            let command =
                #"{"command":"disconnect","payload":{"identifier":"{\"current_user\":\"gid://shop/User/alice\"}","reconnect":false}}"#
            #expect(try await server.client.post("/_broadcast", command, as: key).status == 201)
            #expect(try await alice.said()?.text == #"{"type":"disconnect","reason":"remote","reconnect":false}"#)
            #expect(try await alice.said()?.closeCode == 1_000)
            for vain in [#"{"command":"disconnect","payload":{"identifier":"{}"}}"#, #"{"command":"dance"}"#] {
                #expect(try await server.client.post("/_broadcast", vain, as: key).status == 201)
            }
            try await broadcast(server, key, "still here")
            #expect(try await bob.said()?.json?["message"] == "still here")
        }
    }

    @Test("pages of two nodes hear what either takes, but for the one that it names, and a disconnect ends a user's at both")
    func twoNodes() async throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        func node() async throws -> RunningServer {
            try await RunningServer {
                $0.database = address
                $0.cable.keys.signedStreamKey = Self.key
            }
        }
        let (here, there) = (try await node(), try await node())
        try await stopping(here) { here in
            try await stopping(there) { there in
                let key = try here.broadcaster()
                let (named, sid) = try await page(there)
                let pages = [try await page(here, as: "bob").client, try await page(there, as: "bob").client]
                for page in pages + [named] { try await subscribe(page) }
                let excluding = #"{"stream":"messages","data":"1","meta":{"exclude_socket":"\#(sid ?? "")"}}"#
                #expect(try await here.client.post("/_broadcast", excluding, as: key).status == 201)
                for page in pages { #expect(try await page.said()?.json?["message"] == .integer(1)) }
                try await broadcast(there, key, "2")
                for page in pages + [named] { #expect(try await page.said()?.json?["message"] == "2") }
                let command = #"{"command":"disconnect","payload":{"identifier":"{\"user\":\"bob\"}"}}"#
                #expect(try await here.client.post("/_broadcast", command, as: key).status == 201)
                for page in pages {
                    #expect(try await page.said()?.text == #"{"type":"disconnect","reason":"remote","reconnect":true}"#)
                }
                try await broadcast(here, key, "3")
                #expect(try await named.said()?.json?["message"] == "3")
            }
        }
    }
}
