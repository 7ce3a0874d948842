import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// Real User-Agents, of the kinds that docs/hotwire-native.md names.
@Suite struct NativeRequestTests {
    private static let iPhone =
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    private static let pixel =
        "Mozilla/5.0 (Linux; Android 15; Pixel 9 Build/AP4A.250205.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/131.0.6778.200 Mobile Safari/537.36"

    private func isNative(_ userAgent: String, _ configured: [String] = []) -> Bool {
        Array(userAgent.utf8).withUnsafeBytes { NativeRequests(configured: configured).isNative($0) }
    }

    @Test(
        "Hotwire Native and Turbo Native apps are native, on both platforms",
        arguments: [
            iPhone + "Hotwire Native iOS; Turbo Native iOS; bridge-components: [form menu]",
            iPhone + "MyApp/42 Hotwire Native iOS; Turbo Native iOS; bridge-components: []",
            iPhone + "Turbo Native iOS", "Hotwire Native Android; Turbo Native Android; bridge-components: [badge]; " + pixel,
            "MyApp; Hotwire Native Android; Turbo Native Android; bridge-components: []; " + pixel,
            "Turbo Native Android; " + pixel,
        ])
    func native(_ userAgent: String) { #expect(isNative(userAgent)) }

    @Test(
        "browsers and plain HTTP clients are not",
        arguments: [
            "", iPhone + "Version/18.1 Mobile/15E148 Safari/604.1", pixel,
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
            "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0", "curl/7.88.1", "okhttp/5.3.2",
            "MyApp/42 CFNetwork/3826.500.131 Darwin/24.5.0", "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8)", "Native Turbo",
            "turbo native ios", "Hotwire-Native", "TurboNative iOS", "python-requests/2.32.3",
        ])
    func notNative(_ userAgent: String) { #expect(!isNative(userAgent)) }

    @Test("a configured word makes an app's plain HTTP client native")
    func configured() {
        #expect(isNative("MyApp/42 CFNetwork/3826.500.131 Darwin/24.5.0", ["MyApp/"]))
        #expect(!isNative("YourApp/42 CFNetwork/3826.500.131 Darwin/24.5.0", ["MyApp/"]))
    }
}

/// The effect of an app's look at the list on the badge.
@Suite struct NativeListTests {
    private static let app = ["User-Agent": "MyApp Hotwire Native iOS", "X-Device-Token": Fixture.token("a")]

    private func counts(_ server: RunningServer, _ user: String) async throws -> [Int64?] {
        let badge = try await server.client.get("/badge", as: user).json
        return [badge["count"]?.int, badge["unread_count"]?.int]
    }

    @Test(
        "with badge.clear_on_native_list: false a native list clears nothing, and DELETE /badge does", arguments: [true, false])
    func clearing(isOn: Bool) async throws {
        try await withServer({ $0.badge.clearOnNativeList = isOn }) { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"One"}"#, as: producer)
            let list = try await server.client.get("/notifications", as: alice, headers: Self.app).json
            #expect(list["badge"]?["count"]?.int == (isOn ? 0 : 1))
            #expect(list["notifications"]?.array.count == 1)
            #expect(try await counts(server, alice) == [isOn ? 0 : 1, 1])
            _ = try await server.client.send("DELETE", "/badge", as: alice, headers: Self.app)
            #expect(try await counts(server, alice) == [0, 1])
        }
    }

    @Test("a device that names itself counts as told the number that the list shows, also when the list clears nothing")
    func told() async throws {
        try await withServer({ $0.badge.clearOnNativeList = false }) { server in
            let (producer, alice) = (try server.producer(), try await server.user())
            for letter in ["a", "b"] as [Character] {
                let device = #"{"token":"\#(Fixture.token(letter))","platform":"ios"}"#
                _ = try await server.client.post("/device_tokens", device, as: alice)
            }
            let silent = #"{"user_id":"alice","title":"One","push":false}"#
            _ = try await server.client.post("/notifications", silent, as: producer)
            _ = try await server.client.get("/notifications", as: alice, headers: Self.app)
            let told = try server.app.database.read { connection in
                try User(app: "default", userID: "alice").inbox(in: connection.store).map { inbox in
                    try connection.store.deviceTokens.devices(inbox: inbox).map { $0.schedule.toldCount ?? -1 }
                }
            }
            #expect(told == [1, -1])
        }
    }
}

/// The answer at the server's own address.
@Suite struct RootTests {
    @Test("the root leads to the console where it is on, and is nothing where it is off", arguments: ["GET", "HEAD"])
    func root(method: String) async throws {
        try await withServer({ $0.console = true }) { server in
            let answer = try await server.client.send(method, "/")
            #expect(answer.status == 302)
            #expect(answer.header("location") == "/console")
            #expect(answer.header("cache-control") == "no-cache")
            #expect(try await server.client.get("/console").status == 200)
        }
        try await withServer { server in
            let answer = try await server.client.send(method, "/")
            #expect(answer.status == 404)
        }
    }
}
