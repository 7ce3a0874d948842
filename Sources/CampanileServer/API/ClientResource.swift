import CampanileCore
import HTTPEngine

/// `GET /client`: what the User-Agent of the request announces, the server's twin of Rails' `hotwire_native_app?`.
struct ClientResource: Sendable {
    let nativeRequests: NativeRequests

    func get(_ request: Request) throws -> Reply {
        let client = AnnouncedClient(request.header("user-agent") ?? "", isNative: nativeRequests.isNative(request))
        var response = Response.json(200, client.json)
        response.add("Vary", "User-Agent")
        return .now(response)
    }
}

/// A client as its User-Agent tells of it. Hotwire Native writes
/// `MyApp/42; Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge form]`, with the app's own words first, behind the
/// system's `Mozilla/5.0 (…) AppleWebKit/605.1.15 (KHTML, like Gecko)` on iOS and before it on Android.
struct AnnouncedClient: Equatable {
    let isNative: Bool
    /// Told of native clients only, as is the app.
    let platform: DevicePlatform?
    let app: String?
    let appVersion: String?
    let bridgeComponents: [String]

    init(_ userAgent: String, isNative: Bool) {
        self.isNative = isNative
        bridgeComponents = AnnouncedClient.bridgeComponents(userAgent)
        platform = isNative ? AnnouncedClient.platform(userAgent) : nil
        let product = isNative ? AnnouncedClient.product(userAgent) : nil
        app = product?.name
        appVersion = product?.version
    }

    var json: JSONValue {
        .object([
            .init("native", .bool(isNative)), .init("platform", platform.map { .string($0.rawValue) } ?? .null),
            .init("app", app.map { .string($0) } ?? .null), .init("app_version", appVersion.map { .string($0) } ?? .null),
            .init("bridge_components", .array(bridgeComponents.map { .string($0) })),
        ])
    }

    private static func bridgeComponents(_ userAgent: String) -> [String] {
        guard let found = userAgent.firstMatch(of: #/bridge-components: \[([^\]]*)\]/#) else { return [] }
        return found.1.split(separator: " ").map(String.init)
    }

    /// By Hotwire's own words, wherever they stand; else by those of the systems' plain HTTP clients.
    private static func platform(_ userAgent: String) -> DevicePlatform? {
        let words: [(DevicePlatform, [String])] = [
            (.ios, ["Hotwire Native iOS", "Turbo Native iOS"]), (.android, ["Hotwire Native Android", "Turbo Native Android"]),
            (.ios, ["CFNetwork/", "iPhone", "iPad"]), (.android, ["Android", "okhttp/"]),
        ]
        return words.first { $0.1.contains { userAgent.contains($0) } }?.0
    }

    /// The app's own product: what stands before Hotwire's words, and what a plain HTTP client begins with.
    private static func product(_ userAgent: String) -> (name: String, version: String?)? {
        let mark = userAgent.firstMatch(of: #/(Hotwire|Turbo) Native /#)
        let own = mark.map { userAgent[..<$0.range.lowerBound].replacing(#/\([^)]*\)/#, with: " ") }
            ?? userAgent.prefix { $0 != " " }
        let theirs = [
            "Mozilla/", "AppleWebKit/", "Version/", "Mobile/", "Safari/", "Chrome/", "CFNetwork/", "Darwin/", "okhttp/", "Dalvik/",
        ]
        let words = own.split { $0 == " " || $0 == ";" }.filter { word in !theirs.contains { word.hasPrefix($0) } }
        guard !words.isEmpty else { return nil }
        let text = words.joined(separator: " ")
        guard let slash = text.lastIndex(of: "/") else { return (text, nil) }
        let (name, version) = (text[..<slash], text[text.index(after: slash)...])
        return (String(name.isEmpty ? version : name), name.isEmpty || version.isEmpty ? nil : String(version))
    }
}
