import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// The rights of each caller; the whole matrix is e2e/contract/authorization_matrix.py.
@Suite struct AccessTests {
    @Test("without a credential, with a malformed one and with two there is a 401 that says how to authenticate")
    func credentials() async throws {
        try await withServer { server in
            let none = try await server.client.get("/badge")
            #expect((none.status, none.header("www-authenticate")) == (401, "Bearer realm=\"campanile\""))
            for field in ["Basic YTpi", "Bearer", "Bearer a b", "Bearer x.y.z", "Bearer cmp_nope", "bearer cmp_"] {
                let answer = try await server.client.get("/badge", as: field)
                #expect(answer.status == 401, "\(field)")
                #expect(answer.header("www-authenticate")?.contains("error=\"invalid_token\"") == true)
            }
            let user = try await server.user()
            #expect(try await server.client.get("/badge", as: user).status == 200)
            let two = try await server.client.get("/badge", as: user + "\r\nAuthorization: Bearer other")
            #expect(two.status == 401)
        }
    }

    @Test("an expired token is refused, also when it was remembered; the scheme is compared without case")
    func expiry() async throws {
        try await withServer { server in
            let user = try await server.user(lifetime: 60)
            #expect(try await server.client.get("/badge", as: user.replacing("Bearer", with: "bEARER")).status == 200)
            server.clock.advance(seconds: 61)
            #expect(try await server.client.get("/badge", as: user).status == 401)
        }
    }

    @Test("the wrong kind of credential is a 403")
    func kinds() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let user = try await server.user()
            for _ in 0..<2 {
                #expect(try await server.client.get("/badge", as: producer).status == 403)
                #expect(try await server.client.post("/notifications", "{}", as: user).status == 403)
            }
        }
    }

    @Test("a key revoked by another process is refused once the change is noticed")
    func revocation() async throws {
        try await withServer { server in
            let producer = try server.producer("short-lived")
            #expect(try await server.client.get("/sandbox/pushes", as: producer).status == 200)
            let operations = try server.operations()
            try operations.revokeKey(name: "short-lived")
            operations.close()
            try server.app.database.pollForeignChange()
            #expect(try await server.client.get("/sandbox/pushes", as: producer).status == 401)
        }
    }

    @Test("a notification made by another process is pushed once the change is noticed")
    func notify() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user()
            _ = try await server.client.post(
                "/device_tokens", #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#, as: alice)
            let operations = try server.operations()
            let id = try await operations.notify(user: "alice", app: "default", title: "By hand", body: "")
            operations.close()
            try server.app.database.pollForeignChange()
            var push: JSONValue?
            try await lookUntil {
                push = try await server.client.get("/sandbox/pushes", as: producer).json["pushes"]?.array.first
                return push != nil
            }
            #expect(push?["notification_id"]?.string == id.description)
        }
    }

    @Test("apps are separate: inboxes, badges, devices and pushes")
    func apps() async throws {
        try await withServer { server in
            let mail = try server.producer("mail", app: "mail")
            let chat = try server.producer("chat", app: "chat")
            let mailUser = try await server.user("alice", app: "mail")
            let chatUser = try await server.user("alice", app: "chat")
            let token = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
            #expect(try await server.client.post("/device_tokens", token, as: mailUser).status == 201)
            #expect(try await server.client.post("/device_tokens", token, as: chatUser).status == 201)
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: mail)
            #expect(try await server.client.get("/badge", as: mailUser).json["count"]?.int == 1)
            #expect(try await server.client.get("/badge", as: chatUser).json["count"]?.int == 0)
            #expect(try await server.client.get("/sandbox/pushes", as: chat).json["pushes"]?.array.isEmpty == true)
        }
    }

    @Test("answers name their request, and take over a well-formed name of the client's")
    func requestID() async throws {
        try await withServer { server in
            let own = try await server.client.get("/healthz", headers: ["X-Request-Id": "my-1"])
            #expect(own.header("x-request-id") == "my-1")
            let problem = try await server.client.get("/nowhere", headers: ["X-Request-Id": "not well formed"])
            #expect(problem.header("x-request-id") == (try problem.json["request_id"]?.string))
        }
    }
}
