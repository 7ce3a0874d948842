import CampanileCore
import HTTPEngine
import Foundation
import Logging
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

@Suite("Streams of events", .endsIfItHangs)
struct StreamTests {
    private static let native = ["User-Agent": "Example/1 Hotwire Native iOS"]

    private func post(_ server: RunningServer, _ producer: String, to user: String = "alice", _ title: String = "One")
        async throws
        -> String
    {
        let answer = try await server.client.post(
            "/notifications", #"{"user_id":"\#(user)","title":"\#(title)"}"#, as: producer)
        #expect(answer.status == 201)
        return try #require(try answer.json["id"]?.string)
    }

    // MARK: The badge

    @Test(
        "requests have a quarter of the descriptors, streams the rest",
        arguments: [(100, 64, 16), (1_024, 256, 512), (20_000, 5_000, 14_744), (1_048_576, 16_384, 1_031_936)])
    func descriptors(_ allowed: Int, _ requests: Int, _ streams: Int) {
        #expect(HTTPServer.affordableConnections(descriptors: allowed) == requests)
        #expect(Realtime.affordableStreams(descriptors: allowed) == streams)
    }

    @Test("the badge's stream begins with the present badge, and tells every change under its version")
    func badge() async throws {
        try await withServer { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            let stream = try await server.stream("/badge/stream", as: alice)
            #expect(stream.status == 200)
            #expect(stream.head.contains("Content-Type: text/event-stream"))
            #expect(stream.head.contains("Cache-Control: no-cache, no-transform"))
            // nginx hands it on as it comes then, whatever its configuration says.
            #expect(stream.head.contains("X-Accel-Buffering: no"))
            #expect(stream.head.contains("X-Request-Id: "))
            let first = try #require(try await stream.next())
            #expect(first == .init(id: "0", name: "badge", data: #"{"count":0,"unread_count":0,"version":0}"#))
            _ = try await post(server, producer)
            let one = try #require(try await stream.next())
            let badge = try await server.client.get("/badge", as: alice).json
            #expect(one.count == 1)
            #expect(one.id == badge["version"]?.int.map(String.init))
            #expect(one.json?["unread_count"]?.int == 1)
            _ = try await server.client.get("/notifications", as: alice, headers: Self.native)
            let cleared = try #require(try await stream.next())
            #expect(cleared.count == 0 && cleared.json?["unread_count"]?.int == 1)
            #expect((Int64(cleared.id) ?? 0) > (Int64(one.id) ?? 0))
        }
    }

    @Test("for Turbo the badge is HTML in events without a name")
    func turbo() async throws {
        try await withServer { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            let stream = try await server.stream("/badge/stream?format=turbo_stream", as: alice)
            _ = try await stream.next()
            _ = try await post(server, producer)
            let one = try #require(try await stream.next())
            #expect(one.name == "message")
            #expect(
                one.data
                    == #"<turbo-stream action="update" target="notification-badge-count"><template>1</template></turbo-stream>"#)
            let other = try await server.client.get("/badge/stream?format=xml", as: alice)
            #expect(other.status == 422 && other.errorFields == ["format"])
        }
    }

    @Test("a stream hears of its own user and app only")
    func strangers() async throws {
        try await withServer { server in
            let (producer, other) = (try server.producer(), try server.producer("other", app: "mail"))
            let stream = try await server.stream("/badge/stream", as: try await server.user())
            _ = try await stream.next()
            _ = try await post(server, producer, to: "bob")
            _ = try await post(server, other, to: "alice")
            _ = try await post(server, producer, to: "alice")
            #expect(try await stream.next()?.count == 1)
        }
    }

    @Test("HEAD tells the fields and opens nothing")
    func head() async throws {
        try await withServer { server in
            let answer = try await server.client.send("HEAD", "/badge/stream", as: try await server.user())
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "text/event-stream; charset=utf-8")
            #expect(server.app.realtime.quota.takenCount == 0)
        }
    }

    // MARK: Notifications

    @Test("everything that happens is told once, in order, under growing ids")
    func everything() async throws {
        try await withServer { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            let stream = try await server.stream("/notifications/stream", as: alice)
            #expect(try await stream.next()?.name == "badge")
            let one = try await post(server, producer)
            let created = try await stream.next(2)
            _ = try await server.client.send("PATCH", "/notifications/\(one)", as: alice, body: #"{"read":true}"#)
            let read = try await stream.next(2)
            let two = try await post(server, producer, "Two")
            _ = try await stream.next(2)
            _ = try await server.client.post("/notifications/mark_all_read", "", as: alice)
            let all = try await stream.next(2)
            _ = try await server.client.send("DELETE", "/notifications/\(two)", as: alice)
            let deleted = try #require(try await stream.next())

            #expect(created.map(\.name) == ["notification.created", "badge"])
            let listed = try await server.client.get("/notifications/\(one)", as: alice).json
            #expect(created[0].json?["id"] == listed["id"] && created[0].json?["title"] == listed["title"])
            #expect(created[0].json?["read_at"] == .null)
            #expect(read.map(\.name) == ["notification.updated", "badge"])
            #expect(read[0].json?["read_at"] != .null && read[1].count == 0)
            #expect(all.map(\.name) == ["notifications.read_all", "badge"])
            #expect(all[0].json?["up_to"]?.string == two)
            #expect(deleted.name == "notification.deleted" && deleted.json?["id"]?.string == two)
            let ids = (created + read + all + [deleted]).compactMap { Int64($0.id) }
            #expect(ids == ids.sorted() && Set(ids).count == 7)
        }
    }

    @Test("who comes back with the last id is told what was missed, also by another process of the server")
    func resume() async throws {
        let folder = TemporaryFolder()
        let clock = HandClock()
        let first = try await RunningServer(folder: folder, clock: clock)
        let (producer, alice) = (try first.producer(), try await first.user())
        let stream = try await first.stream("/notifications/stream", as: alice)
        _ = try await stream.next()
        let seen = try await post(first, producer)
        let last = try #require(try await stream.next())
        stream.close()
        let missed = try await post(first, producer, "Missed")
        await first.stop()

        let second = try await RunningServer(folder: folder, clock: clock)
        let unheard = try await post(second, producer, "Unheard")
        let again = try await second.stream(
            "/notifications/stream", as: alice, headers: ["Last-Event-ID": last.id])
        let told = try await again.next(3)
        #expect(told.map(\.name) == ["notification.created", "notification.created", "badge"])
        #expect(told.prefix(2).compactMap { $0.json?["id"]?.string } == [missed, unheard])
        #expect(told[2].count == 3)
        let live = try await post(second, producer, "Live")
        #expect(try await again.next()?.json?["id"]?.string == live)
        #expect(seen != missed)
        await second.stop()
    }

    @Test(
        "an id that nobody gave, or that is too old, is answered with a reset and the present badge",
        arguments: ["abc", "-1", "99999", ""])
    func unknown(_ id: String) async throws {
        try await withServer { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            _ = try await post(server, producer)
            let stream = try await server.stream("/notifications/stream", as: alice, headers: ["Last-Event-ID": id])
            let told = try await stream.next(id.isEmpty ? 1 : 2)
            #expect(told.map(\.name) == (id.isEmpty ? ["badge"] : ["reset", "badge"]))
            if !id.isEmpty { #expect(told[0].json?["reason"]?.string == "unknown") }
            #expect(told.last?.count == 1)
        }
    }

    @Test("who comes back when nobody was listening any more is told to begin anew")
    func tooOld() async throws {
        try await withServer { server in
            let (producer, alice) = (try server.producer(), try await server.user(lifetime: 7 * 86_400))
            let stream = try await server.stream("/notifications/stream", as: alice)
            let begun = try #require(try await stream.next())
            stream.close()
            server.clock.advance(milliseconds: Limits.recordingMilliseconds)
            _ = try await post(server, producer)
            let again = try await server.stream(
                "/notifications/stream", as: alice, headers: ["Last-Event-ID": begun.id])
            let told = try await again.next(2)
            #expect(told.map(\.name) == ["reset", "badge"])
            #expect(told[0].json?["reason"]?.string == "too_old")
            // From what the reset said on, nothing is missed.
            again.close()
            let next = try await server.stream(
                "/notifications/stream", as: alice, headers: ["Last-Event-ID": told[0].id])
            #expect(try await next.next()?.name == "badge")
        }
    }

    @Test("who was away for an hour is told nothing when nothing happened, however much happened to others")
    func idle() async throws {
        try await withServer { server in
            let alice = try await server.user(lifetime: 7 * 86_400)
            let bob = try await server.user("bob", lifetime: 7 * 86_400)
            let other = try await server.stream("/notifications/stream", as: bob)
            let stream = try await server.stream("/notifications/stream", as: alice)
            _ = try await (other.next(), stream.next())
            let producer = try server.producer()
            _ = try await post(server, producer, to: "bob")
            server.clock.advance(milliseconds: Limits.eventMilliseconds + 1)
            // Long after its last event, the client opens the stream anew, and then comes back to it.
            let again = try await server.stream("/notifications/stream", as: alice)
            let place = try #require(try await again.next())
            let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
            try await Housekeeping(database: Store(server.app.database), world: server.world, logger: logger).tidyUp()
            let back = try await server.stream("/notifications/stream?last_event_id=\(place.id)", as: alice)
            #expect(try await back.next()?.name == "badge")
        }
    }

    @Test("a burst that doesn't go in one look is told whole, in order, to a client that reads")
    func burst() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let stream = try await server.stream("/notifications/stream", as: try await server.user())
            _ = try await stream.next()
            // All of them are less than a stream may have pending, however late the client reads.
            let body = String(repeating: "x", count: 900)
            let operations = try server.operations()
            var ids: [String] = []
            for _ in 0..<(Limits.eventsPerLook + 20) {
                ids.append("\(try await operations.notify(user: "alice", app: "default", title: "A", body: body))")
            }
            operations.close()
            try server.app.database.pollForeignChange()
            var told: [String] = []
            while told.count < ids.count, let event = try await stream.next() {
                if event.name == "notification.created" { told.append(event.json?["id"]?.string ?? "") }
            }
            #expect(told == ids)
            #expect(server.app.realtime.shards.allSatisfy { $0.loop.statistics.cutAsTooSlow == 0 })
            withExtendedLifetime(producer) {}
        }
    }

    @Test("what another process writes arrives too")
    func foreign() async throws {
        try await withServer { server in
            let stream = try await server.stream("/notifications/stream", as: try await server.user())
            _ = try await stream.next()
            let operations = try server.operations()
            let id = try await operations.notify(user: "alice", app: "default", title: "From the command line", body: "")
            operations.close()
            try server.app.database.pollForeignChange()
            #expect(try await stream.next()?.json?["id"]?.string == "\(id)")
        }
    }

    // MARK: The end

    @Test("a stop tells clients to come back within five seconds, and ends the streams")
    func stop() async throws {
        let server = try await RunningServer()
        let streams = [
            try await server.stream("/badge/stream", as: try await server.user()),
            try await server.stream("/notifications/stream", as: try await server.user()),
        ]
        for stream in streams { _ = try await stream.next() }
        await server.stop()
        for stream in streams {
            #expect(try await stream.next() == nil)
            let wait = try #require(stream.retries.all.last)
            #expect(stream.retries.all.count == 2 && (0..<5_000).contains(wait))
        }
    }

    @Test("while a server stops, nobody who comes back is answered: an answer would end an EventSource for good")
    func comingBackDuringAStop() async throws {
        let server = try await RunningServer()
        let alice = try await server.user()
        // A cable client that never says goodbye holds the stop up.
        let (cable, _) = try await WebSocketClient.open(port: server.client.port, headers: ["Authorization": alice])
        let stream = try await server.stream("/badge/stream", as: alice)
        _ = try await stream.next()
        let stopped = Task { await server.stop() }
        #expect(try await stream.next() == nil)
        await #expect(throws: EventSourceClient.Broken.self) {
            try await EventSourceClient(port: server.client.port, "/badge/stream", headers: ["Authorization": alice])
        }
        withExtendedLifetime(cable) {}
        await stopped.value
        await server.stop()
    }

    @Test("a token's end ends its streams, and who comes back with it is refused")
    func expiry() async throws {
        try await withServer { server in
            let short = try await server.user(lifetime: 60)
            let stream = try await server.stream("/badge/stream", as: short)
            let other = try await server.stream("/badge/stream", as: try await server.user("bob"))
            _ = try await (stream.next(), other.next())
            server.clock.advance(seconds: 61)
            server.app.realtime.tick()
            #expect(try await stream.next() == nil)
            #expect(try await server.client.get("/badge/stream", as: short).status == 401)
            try await server.untilStreams(atMost: 1)
            #expect(server.app.realtime.quota.takenCount == 1)
            other.close()
        }
    }

    @Test("a stream that opened while its user was being revoked ends within seconds")
    func revokedMeanwhile() async throws {
        try await withServer { server in
            let stream = try await server.stream("/badge/stream", as: try await server.user())
            _ = try await stream.next()
            // The hub has looked already when the stream comes to it.
            server.app.realtime.noticedRevocations()
            let next = Timestamp(milliseconds: server.clock.now.milliseconds + 1_000)
            try await server.app.database.write {
                try $0.store.revocations.revoke(app: "default", userID: "alice", tokensBefore: next)
            }
            server.app.realtime.tick()
            #expect(try await stream.next() == nil)
        }
    }

    @Test("a revoked user's streams end; other users' don't")
    func revocation() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let stream = try await server.stream("/badge/stream", as: alice)
            let other = try await server.stream("/badge/stream", as: try await server.user("bob"))
            _ = try await (stream.next(), other.next())
            let operations = try server.operations()
            try operations.revoke(user: "alice", app: "default")
            operations.close()
            try server.app.database.pollForeignChange()
            #expect(try await stream.next() == nil)
            #expect(try await server.client.get("/badge", as: alice).status == 401)
            #expect(try await server.client.get("/badge/stream", as: alice).status == 401)
            _ = try await post(server, try server.producer(), to: "bob")
            #expect(try await other.next()?.count == 1)
            server.clock.advance(seconds: 1)
            #expect(try await server.client.get("/badge", as: try await server.user()).status == 200)
        }
    }
}

extension RunningServer {
    func stream(
        _ target: String, as credential: String? = nil, headers: [String: String] = [:]
    ) async throws -> EventSourceClient {
        var headers = headers
        if let credential { headers["Authorization"] = credential }
        return try await EventSourceClient(port: client.port, target, headers: headers)
    }
}
