import CampanileCore
import Testing

@testable import CampanileServer

/// The answer of `GET /client` to a User-Agent.
@Suite struct AnnouncedClientTests {
    private static let webKit = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    private static let webView =
        "Mozilla/5.0 (Linux; Android 15; Pixel 9; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/131.0.6778.200 Mobile Safari/537.36"

    private func json(_ userAgent: String, _ configured: [String] = []) -> String {
        let (requests, bytes) = (NativeRequests(configured: configured), Array(userAgent.utf8))
        let client = AnnouncedClient(bytes, isNative: bytes.withUnsafeBytes { requests.isNative($0) }, marks: requests.configured)
        return String(decoding: client.json.text, as: UTF8.self)
    }

    @Test(
        "a User-Agent tells platform, app, version and bridge components",
        arguments: [
            (
                webKit + "MyApp/42; Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge form]", "ios", "MyApp", "42",
                ["badge", "form"]
            ),
            (
                webKit + "Mobile/15E148 My App/2.1.0 Hotwire Native iOS; Turbo Native iOS; bridge-components: []", "ios",
                "My App", "2.1.0", []
            ),
            (webKit + "Hotwire Native iOS; Turbo Native iOS; bridge-components: [a]", "ios", nil, nil, ["a"]),
            (
                "MyApp; Hotwire Native Android; Turbo Native Android; bridge-components: [menu]; " + webView, "android", "MyApp",
                nil, ["menu"]
            ),
            ("Hotwire Native Android; Turbo Native Android; bridge-components: []; " + webView, "android", nil, nil, []),
            ("MyApp/3 (store build); Hotwire Native Android; " + webView, "android", "MyApp", "3", []),
            ("MyApp/1.0 Turbo Native Android; " + webView, "android", "MyApp", "1.0", []),
            ("MyApp/42 CFNetwork/3826.500.131 Darwin/24.5.0", "ios", "MyApp", "42", []),
            ("MyApp/7 (Android 14)", "android", "MyApp", "7", []),
            ("MyApp/", nil, "MyApp", nil, []),
            // The version ends where a product's does (RFC 9110 section 10.1.5).
            ("MyApp/1.0 iOS; Hotwire Native iOS", "ios", "MyApp", "1.0", []),
            ("MyApp/1.0 Extra/2.0; Hotwire Native iOS", "ios", "MyApp", "1.0", []),
            // Comments may hold others.
            ("MyApp/1 (a(b)c) Hotwire Native iOS", "ios", "MyApp", "1", []),
            ("MyApp/1 (a Hotwire Native iOS", "ios", "MyApp", "1", []),
            // A browser's words are an app's name where no browser is named.
            ("Mobile/3; Hotwire Native Android; " + webView, "android", "Mobile", "3", []),
            (webKit + "Mobile/3 Hotwire Native iOS", "ios", "Mobile", "3", []),
            (webView + " YourApp/3 Turbo Native Android", "android", "YourApp", "3", []),
            ("YourApp/4 " + webView + " Turbo Native Android", "android", "YourApp", "4", []),
            // What is configured says which word is the app's.
            ("okhttp/4.12 MyApp/", "android", "MyApp", nil, []),
            ("okhttp/4.12 (x; y) MyApp/3.1 z", "android", "MyApp", "3.1", []),
            ("Hotwire Native iOS; " + webKit + "MyApp/5", "ios", "MyApp", "5", []),
            ("Other/1 MyApp/2; Hotwire Native iOS", "ios", "MyApp", "2", []),
        ] as [(String, String?, String?, String?, [String])])
    func native(_ client: (userAgent: String, platform: String?, app: String?, version: String?, components: [String])) {
        func text(_ value: String?) -> String { value.map { "\"\($0)\"" } ?? "null" }
        let components = client.components.map { "\"\($0)\"" }.joined(separator: ",")
        #expect(
            json(client.userAgent, ["MyApp/"]) == """
                {"native":true,"platform":\(text(client.platform)),"app":\(text(client.app)),"app_version":\(text(client.version)),\
                "bridge_components":[\(components)]}
                """)
    }

    @Test(
        "a configured mark may hold spaces and semicolons, which are no part of the app's name",
        arguments: [
            ("; ", "Other/1; x", "Other", "1"), ("MyApp iOS;", "MyApp iOS; " + webKit, "MyApp iOS", nil),
            ("MyApp;", webKit + "MyApp; x/1", "MyApp", nil),
            ("My App/", "My App/2.1 CFNetwork/1", "My App", "2.1"), ("(MyApp)", "Other/1 (MyApp) x", "MyApp", nil),
        ] as [(String, String, String, String?)])
    func marks(mark: String, userAgent: String, app: String, version: String?) {
        let client = AnnouncedClient(Array(userAgent.utf8), isNative: true, marks: [Array(mark.utf8)])
        #expect((client.app, client.appVersion) == (app, version))
    }

    @Test(
        "a browser announces nothing",
        arguments: ["", webKit + "Version/18.1 Mobile/15E148 Safari/604.1", webView, "curl/7.88.1"])
    func browsers(userAgent: String) {
        #expect(json(userAgent) == #"{"native":false,"platform":null,"app":null,"app_version":null,"bridge_components":[]}"#)
    }

    /// Bytes that count how often one is looked at.
    private struct CountedBytes: RandomAccessCollection {
        final class Looks { var count = 0 }

        let bytes: [UInt8]
        let looks = Looks()
        var startIndex: Int { 0 }
        var endIndex: Int { bytes.count }

        subscript(index: Int) -> UInt8 {
            looks.count += 1
            return bytes[index]
        }
    }

    private func looks(_ text: String, bytes: Int) -> Int {
        let counted = CountedBytes(bytes: Array(String(repeating: text, count: bytes / text.utf8.count + 1).utf8.prefix(bytes)))
        let client = AnnouncedClient(counted, isNative: true, marks: [Array("MyApp/".utf8), Array("App".utf8)])
        #expect(client.bridgeComponents.count <= Limits.bridgeComponents)
        return counted.looks.count
    }

    @Test(
        "however a User-Agent is made, each of its bytes is looked at a few times",
        arguments: [
            "bridge-components: [", "bridge-components: [a ", "bridge-components: [a b]", "(", "((a)", ")", "a ", "/", ";",
            "Mozilla/", "Mozilla/ a",
            "MyApp", "MyAppMyApp/", "App", "Hotwire Nativ", "Hotwire Native ", "Turbo Native Androi", "Mobile/15E148 ",
            "iPhoniPa", "]", "okhttp/ ", "\u{E9}",
        ])
    func cost(text: String) {
        let sizes = [2_000, 4_000, 8_000, 16_000]
        for size in sizes { #expect(looks(text, bytes: size) <= 64 * size, "\(size)") }
        #expect(looks("a" + text, bytes: 16_000) <= 64 * 16_000)
    }

    @Test("of bridge components the first 64 are told")
    func manyComponents() throws {
        let names = (1...100).map { "c\($0)" }
        let client = AnnouncedClient(
            Array("bridge-components: [\(names.joined(separator: " "))]".utf8), isNative: false, marks: [])
        #expect(client.bridgeComponents == Array(names.prefix(64)))
    }

    @Test("GET /client tells it, and the console's page has the class for what native.css hides")
    func served() async throws {
        try await withServer({ $0.console = true }) { server in
            let headers = ["User-Agent": "MyApp/1 Hotwire Native iOS"]
            let answer = try await server.client.get("/client", headers: headers)
            #expect(answer.status == 200)
            #expect(answer.header("vary") == "User-Agent")
            #expect(try answer.json["native"] == true && answer.json["app"] == "MyApp")
            #expect(try await server.client.get("/client").json["native"] == false)
            func page(_ headers: [String: String]) async throws -> String {
                String(decoding: try await server.client.get("/console", headers: headers).body, as: UTF8.self)
            }
            let native = try await page(headers)
            #expect(native.contains(#"<html lang="en" class="native-app">"#))
            #expect(try await page([:]).contains(#"<html lang="en">"#))
            let address = try #require(try await server.client.get("/assets/native.css").header("location"))
            #expect(native.contains(#"<link rel="stylesheet" href="\#(address)">"#))
            let sheet = try await server.client.get(address)
            #expect(sheet.header("content-type") == "text/css; charset=utf-8")
            #expect(String(decoding: sheet.body, as: UTF8.self).contains(".native-app .native-back { display: none"))
        }
    }
}
