import CampanileClient
import Foundation
import HotwireNative

/// Where the servers are, and which pages the app knows by name. The two variables are for the scheme of Xcode.
enum Addresses {
    /// The web site.
    static let web = base(debug: "http://localhost:3000", release: "https://www.example.com", variable: "WEB_URL")
    static let campanile = base(
        debug: "http://localhost:3001", release: "https://push.example.com", variable: "CAMPANILE_URL")
    static let links = LinkPolicy(web)

    static let scheme = "campanile-example"
    static let inbox = "/notifications"
    /// The page that the app shows to whoever isn't signed in: Rails 8's own is `/session/new`, Devise's `/users/sign_in`.
    static let signIn = "/sign_in"

    /// First the file that the app was built with, so that a first launch without a network has tabs; then the server's, which
    /// the library keeps for the next launch.
    static var pathConfiguration: [PathConfiguration.Source] {
        var sources: [PathConfiguration.Source] = []
        if let file = Bundle.main.url(forResource: "ios_v1", withExtension: "json") { sources.append(.file(file)) }
        if let url = campanile.page("/configurations/ios_v1.json") { sources.append(.server(url)) }
        return sources
    }

    /// The screens that deep links may name, as the app was built. `Shell` asks the server for newer ones.
    static var deepLinks: DeepLinkTree {
        guard let file = Bundle.main.url(forResource: "deep_links", withExtension: "json"),
            let data = try? Data(contentsOf: file), let json = try? JSONValue(parsing: Array(data)),
            let tree = DeepLinkTree(json: json)
        else { return DeepLinkTree([]) }
        return tree
    }

    private static func base(debug: String, release: String, variable: String) -> BaseURL {
        #if DEBUG
        let isDebug = true
        #else
        let isDebug = false
        #endif
        do {
            return try BaseURL(debug: debug, release: release, isDebug: isDebug, variable: variable)
        } catch {
            // Only a mistake in this file or in the scheme, which is found at the first launch.
            fatalError(error.description)
        }
    }
}
