import CampanileCore
import HTTPEngine
import TestSupport
import Testing

@testable import CampanileServer

@Suite("Who may listen", .endsIfItHangs)
struct StreamAccessTests {
    private func bare(_ credential: String) -> String { String(credential.dropFirst("Bearer ".count)) }

    @Test("without a token, with a wrong one or with an API key nobody listens")
    func refused() async throws {
        try await withServer { (server: RunningServer) async throws in
            for target in ["/badge/stream", "/notifications/stream"] {
                #expect(try await server.client.get(target).status == 401)
                #expect(try await server.client.get(target, as: "Bearer x.y.z").status == 401)
                #expect(try await server.client.get(target + "?access_token=x.y.z").status == 401)
                #expect(try await server.client.get(target, as: try server.producer(target)).status == 403)
            }
            #expect(try await server.client.get("/badge/stream").header("www-authenticate")?.hasPrefix("Bearer") == true)
            #expect(server.app.realtime.quota.takenCount == 0)
        }
    }

    @Test("access_token opens streams and nothing else")
    func query() async throws {
        try await withServer { server in
            let token = bare(try await server.user())
            let stream = try await server.stream("/badge/stream?access_token=\(token)")
            #expect(stream.status == 200)
            #expect(try await server.client.get("/badge?access_token=\(token)").status == 401)
            let both = try await server.client.get("/badge/stream?access_token=\(token)", as: "Bearer \(token)")
            #expect(both.status == 400)
        }
    }

    @Test("a stream token opens streams for a minute; the stream lives as long as the token that asked for it")
    func streamToken() async throws {
        try await withServer { server in
            let alice = try await server.user(lifetime: 600)
            let made = try await server.client.post("/stream_tokens", "", as: alice)
            #expect(made.status == 201)
            let token = try #require(try made.json["token"]?.string)
            #expect(try made.json["expires_at"]?.string == "\(Timestamp(milliseconds: server.clock.now.milliseconds + 60_000))")
            let stream = try await server.stream("/badge/stream?access_token=\(token)")
            #expect(try await stream.next()?.count == 0)
            #expect(try await server.client.get("/badge", as: "Bearer \(token)").status == 401)
            #expect(try await server.client.post("/stream_tokens", "", as: "Bearer \(token)").status == 401)
            let forged = token.dropLast(2) + (token.hasSuffix("AA") ? "BB" : "AA")
            #expect(try await server.client.get("/badge/stream?access_token=\(forged)").status == 401)
            server.clock.advance(seconds: 61)
            #expect(try await server.client.get("/badge/stream?access_token=\(token)").status == 401)
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"A"}"#, as: try server.producer())
            #expect(try await stream.next()?.count == 1)
            server.clock.advance(seconds: 600)
            server.app.realtime.tick()
            #expect(try await stream.next() == nil)
        }
    }

    @Test("a stream token outlives a restart")
    func streamTokenOverRestart() async throws {
        let folder = TemporaryFolder()
        let clock = HandClock()
        let first = try await RunningServer(folder: folder, clock: clock)
        let made = try await first.client.post("/stream_tokens", "", as: try await first.user())
        let token = try #require(try made.json["token"]?.string)
        await first.stop()
        let second = try await RunningServer(folder: folder, clock: clock)
        #expect(try await second.stream("/badge/stream?access_token=\(token)").status == 200)
        await second.stop()
    }

    @Test("a cookie opens streams if the configuration names it, and nothing else")
    func cookie() async throws {
        try await withServer({ $0.streams.cookie = "session_token" }) { server in
            let token = bare(try await server.user())
            let header = ["Cookie": "a=b; session_token=\(token); c=d"]
            #expect(try await server.stream("/badge/stream", headers: header).status == 200)
            #expect(try await server.client.get("/badge", headers: header).status == 401)
            #expect(try await server.client.get("/badge/stream", headers: ["Cookie": "other=\(token)"]).status == 401)
        }
        try await withServer { server in
            let header = ["Cookie": "session_token=\(bare(try await server.user()))"]
            #expect(try await server.client.get("/badge/stream", headers: header).status == 401)
        }
    }

    @Test("a page of a foreign origin can't use the cookie")
    func foreignCookie() async throws {
        try await withServer({
            $0.streams.cookie = "session_token"
            $0.allowedOrigins = ["https://app.example.com"]
        }) { server in
            var header = ["Cookie": "session_token=\(bare(try await server.user()))", "Origin": "https://evil.example"]
            let refused = try await server.client.get("/badge/stream", headers: header)
            #expect(refused.status == 403)
            header["Origin"] = "https://app.example.com"
            let stream = try await server.stream("/badge/stream", headers: header)
            #expect(stream.status == 200)
            #expect(stream.head.contains("Access-Control-Allow-Origin: https://app.example.com"))
            header["Origin"] = "http://127.0.0.1:\(server.client.port)"
            #expect(try await server.stream("/badge/stream", headers: header).status == 200)
        }
    }

    @Test("what another site's page only embeds can't use the cookie: that sends no origin")
    func embedded() async throws {
        try await withServer({ $0.streams.cookie = "session_token" }) { server in
            var header = ["Cookie": "session_token=\(bare(try await server.user()))", "Sec-Fetch-Site": "cross-site"]
            #expect(try await server.client.get("/badge/stream", headers: header).status == 403)
            header["Sec-Fetch-Site"] = "same-site"
            #expect(try await server.client.get("/badge/stream", headers: header).status == 403)
            header["Sec-Fetch-Site"] = "same-origin"
            #expect(try await server.stream("/badge/stream", headers: header).status == 200)
        }
    }

    @Test("pages of the allowed origins may read answers, others may not")
    func crossOrigin() async throws {
        try await withServer({ $0.allowedOrigins = ["https://app.example.com"] }) { server in
            let alice = try await server.user()
            let allowed = try await server.client.get("/badge", as: alice, headers: ["Origin": "https://app.example.com"])
            #expect(allowed.header("access-control-allow-origin") == "https://app.example.com")
            #expect(allowed.header("access-control-expose-headers")?.contains("ETag") == true)
            #expect(allowed.header("vary") == "Origin")
            let foreign = try await server.client.get("/badge", as: alice, headers: ["Origin": "https://evil.example"])
            #expect(foreign.status == 200 && foreign.header("access-control-allow-origin") == nil)
            let refused = try await server.client.get("/badge", headers: ["Origin": "https://app.example.com"])
            #expect(refused.status == 401 && refused.header("access-control-allow-origin") != nil)
            let preflight = [
                "Origin": "https://app.example.com", "Access-Control-Request-Method": "DELETE",
                "Access-Control-Request-Headers": "authorization",
            ]
            let asked = try await server.client.send("OPTIONS", "/badge", headers: preflight)
            #expect(asked.status == 204)
            #expect(asked.header("access-control-allow-methods")?.contains("DELETE") == true)
            let headers = asked.header("access-control-allow-headers") ?? ""
            for name in ["Authorization", "Content-Type", "If-None-Match", "X-Device-Token", "X-Sec-Purpose", "X-Request-Id"] {
                #expect(headers.contains(name))
            }
        }
    }

    @Test("one stream too many of a user is refused with 429, one too many in total with 503, until one ends")
    func limits() async throws {
        try await withServer({
            $0.streams.perUser = 2
            $0.streams.total = 3
        }) { server in
            let (alice, bob) = (try await server.user(), try await server.user("bob"))
            var streams = [
                try await server.stream("/badge/stream", as: alice), try await server.stream("/badge/stream", as: alice),
            ]
            let third = try await server.client.get("/notifications/stream", as: alice)
            #expect(third.status == 429 && third.code == "too_many_streams" && third.header("retry-after") != nil)
            streams.append(try await server.stream("/badge/stream", as: bob))
            let fourth = try await server.client.get("/badge/stream", as: bob)
            #expect(fourth.status == 503 && fourth.header("retry-after") != nil)
            for stream in streams { _ = try await stream.next() }
            streams[0].close()
            try await server.untilStreams(atMost: 2)
            #expect(try await server.stream("/badge/stream", as: bob).status == 200)
            for stream in streams { stream.close() }
        }
    }

    @Test("a server that holds no stream any more has given back every slot")
    func quota() async throws {
        try await withServer { server in
            let alice = try await server.user()
            for _ in 0..<20 {
                let stream = try await server.stream("/notifications/stream", as: alice)
                _ = try await stream.next()
                stream.close()
            }
            try await server.untilStreams(atMost: 0)
            #expect(server.app.realtime.shards.allSatisfy { $0.loop.statistics.open == 0 })
        }
    }
}
