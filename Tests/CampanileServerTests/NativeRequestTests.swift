import Testing

@testable import CampanileServer

/// Real User-Agents, as protocols.md section 6 has them.
@Suite struct NativeRequestTests {
    private static let iPhone =
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    private static let pixel =
        "Mozilla/5.0 (Linux; Android 15; Pixel 9 Build/AP4A.250205.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/131.0.6778.200 Mobile Safari/537.36"

    private func isNative(_ userAgent: String, _ configured: [String] = []) -> Bool {
        Array(userAgent.utf8).withUnsafeBytes { NativeRequests(configured: configured).isNative($0) }
    }

    @Test("Hotwire Native and Turbo Native apps are native, on both platforms", arguments: [
        iPhone + "Hotwire Native iOS; Turbo Native iOS; bridge-components: [form menu]",
        iPhone + "MyApp/42 Hotwire Native iOS; Turbo Native iOS; bridge-components: []",
        iPhone + "Turbo Native iOS", "Hotwire Native Android; Turbo Native Android; bridge-components: [badge]; " + pixel,
        "MyApp; Hotwire Native Android; Turbo Native Android; bridge-components: []; " + pixel, "Turbo Native Android; " + pixel,
    ])
    func native(_ userAgent: String) { #expect(isNative(userAgent)) }

    @Test("browsers and plain HTTP clients are not", arguments: [
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
