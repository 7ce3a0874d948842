import CampanileCore
import Testing

@testable import CampanileServer

/// The walk that a newcomer makes, over real sockets, with the sandbox as the provider.
@Suite struct BadgeWalkTests {
    private static let native = "MyApp Hotwire Native iOS; Turbo Native iOS; bridge-components: []"
    private static let browser = "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0"

    /// A walker: one user with two iPhones and one Android phone.
    private struct Walker {
        let server: RunningServer
        let producer: String
        let user: String

        init(_ server: RunningServer) async throws {
            self.server = server
            producer = try server.producer()
            user = try await server.user()
            for (token, platform) in [(Fixture.token("a"), "ios"), (Fixture.token("b"), "ios"), ("droid", "android")] {
                let answer = try await server.client.post(
                    "/device_tokens", #"{"token":"\#(token)","platform":"\#(platform)"}"#, as: user)
                #expect(answer.status == 201)
            }
        }

        func create() async throws {
            let answer = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"Hello","body":"There"}"#, as: producer)
            #expect(answer.status == 201)
        }

        func list(_ userAgent: String) async throws {
            #expect(
                try await server.client.get("/notifications", as: user, headers: ["User-Agent": userAgent]).status == 200)
        }

        func badge() async throws -> (Int64?, Int64?) {
            let badge = try await server.client.get("/badge", as: user).json
            return (badge["count"]?.int, badge["unread_count"]?.int)
        }

        /// The pushes in words, newest first, once there are as many as expected and the delivery worker has come to rest.
        func pushes(_ expected: Int) async throws -> [String] {
            var pushes: [JSONValue] = []
            try await lookUntil {
                pushes = try await server.client.get("/sandbox/pushes?user_id=alice", as: producer).json["pushes"]?.array ?? []
                return try await server.app.deliveryWorker.isQuiet && pushes.count >= expected
            }
            return pushes.map { push in
                let payload = push["payload"]
                let count = payload?["aps"]?["badge"]?.int
                let isAlert = payload?["aps"]?["alert"] != nil || payload?["message"]?["notification"] != nil
                return
                    "\(push["token"]?.string?.prefix(1) ?? "") \(isAlert ? "alert" : "clearing") \(count.map(String.init) ?? "-")"
            }
        }
    }

    @Test(
        "two iPhones and an Android phone see alerts with the number, clearings when the inbox is opened, and nothing for a browser",
        arguments: [(BadgePolicy.unread, Int64(2)), (BadgePolicy.sinceOpened, Int64(1))])
    func walk(_ policy: BadgePolicy, _ second: Int64) async throws {
        try await withServer({ $0.badge.policy = policy }) { server in
            let walker = try await Walker(server)
            try await walker.create()
            #expect(try await walker.pushes(3).sorted() == ["a alert 1", "b alert 1", "d alert -"])
            #expect(try await walker.badge() == (1, 1))

            try await walker.list(Self.browser)
            #expect(try await walker.pushes(3).count == 3)
            #expect(try await walker.badge() == (1, 1))

            try await walker.list(Self.native)
            #expect(try await walker.pushes(5).prefix(2).sorted() == ["a clearing 0", "b clearing 0"])
            #expect(try await walker.badge() == (0, 1))

            try await walker.list(Self.native)
            #expect(try await walker.pushes(5).count == 5)

            try await walker.create()
            #expect(
                try await walker.pushes(8).prefix(3).sorted()
                    == ["a alert \(second)", "b alert \(second)", "d alert -"])

            let answer = try await server.client.send(
                "POST", "/notifications/mark_all_read", as: walker.user, headers: ["User-Agent": Self.browser])
            #expect(try answer.json["updated"]?.int == 2)
            // The Android phone is told what is to leave.
            #expect(try await walker.pushes(11).prefix(3).sorted() == ["a clearing 0", "b clearing 0", "d clearing -"])
            #expect(try await walker.badge() == (0, 0))
        }
    }

    @Test("three native lists at once clear every device once")
    func parallel() async throws {
        try await withServer { server in
            let walker = try await Walker(server)
            try await walker.create()
            _ = try await walker.pushes(3)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<3 { group.addTask { try await walker.list(Self.native) } }
                try await group.waitForAll()
            }
            #expect(try await walker.pushes(5).count == 5)
        }
    }

    @Test("HEAD, later pages and prefetches clear nothing", arguments: ["HEAD", "page", "Sec-Purpose", "X-Sec-Purpose"])
    func harmless(_ kind: String) async throws {
        try await withServer { server in
            let walker = try await Walker(server)
            try await walker.create()
            try await walker.create()
            _ = try await walker.pushes(6)
            var headers = ["User-Agent": Self.native]
            var target = "/notifications"
            if kind == "page" {
                let first = try await server.client.get(
                    "/notifications?limit=1", as: walker.user, headers: ["User-Agent": Self.browser])
                target = "/notifications?limit=1&cursor=\(try first.json["next_cursor"]?.string ?? "")"
            } else if kind != "HEAD" {
                headers[kind] = "prefetch;anonymous-client-ip"
            }
            let answer = try await server.client.send(
                kind == "HEAD" ? "HEAD" : "GET", target, as: walker.user, headers: headers)
            #expect(answer.status == 200)
            #expect(try await walker.badge() == (2, 2))
            #expect(try await walker.pushes(6).count == 6)
        }
    }

    @Test("a native list shows the badge after the clearing; a device that names itself is left out")
    func answer() async throws {
        try await withServer { server in
            let walker = try await Walker(server)
            try await walker.create()
            _ = try await walker.pushes(3)
            let answer = try await server.client.get(
                "/notifications", as: walker.user,
                headers: ["User-Agent": Self.native, "X-Device-Token": Fixture.token("a").uppercased()])
            #expect(try answer.json["badge"]?["count"]?.int == 0)
            #expect(try answer.json["badge"]?["unread_count"]?.int == 1)
            #expect(try await walker.pushes(4).first == "b clearing 0")
            #expect(try await walker.pushes(4).count == 4)
        }
    }
}
