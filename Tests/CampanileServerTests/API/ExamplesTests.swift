import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

/// The examples' server and app, held together.
@Suite struct ExamplesTests {
    private static let folder = HouseRulesTests.root.appending(path: "examples")

    private func configuration() throws -> Configuration {
        let file = Self.folder.appending(path: "campanile.yaml").path()
        return try Configuration.load(file: file, fileIsRequired: true, environment: [:], flags: .init())
    }

    private func tree() throws -> DeepLinkTree { try configuration().notificationRules(of: AppName.standard).deepLinks }

    private func json(_ path: String) throws -> JSONValue {
        try JSONValue(parsing: Array(Data(contentsOf: Self.folder.appending(path: path))))
    }

    @Test("the examples' configuration loads as it stands, and the apps' copies of the deep links are what the server answers")
    func deepLinks() throws {
        #expect(try json("ios/App/Resources/deep_links.json") == tree().json)
        #expect(try json("android/app/src/main/assets/json/deep_links.json") == tree().json)
    }

    @Test("the Android app's copy of the path configuration is what the server answers, and its tabs are the server's")
    func androidPathConfiguration() throws {
        let version = try #require(configuration().pathConfiguration.android["v1"])
        #expect(try json("android/app/src/main/assets/json/android_v1.json") == version.json(.android))
        let tabs = Self.folder.appending(path: "android/app/src/main/kotlin/com/example/shop/MainTabs.kt")
        let source = try String(contentsOf: tabs, encoding: .utf8).replacing("Addresses.INBOX", with: "\"/notifications\"")
        let paths = source.matches(of: /[A-Z]+\("([^"]+)", R\.string/).map { JSONValue.string(String($0.1)) }
        guard case .array(let settings)? = version.json(.android)["settings"]?["tabs"] else {
            Issue.record("there are no tabs")
            return
        }
        #expect(settings.map { $0["path"] } == paths)
    }

    @Test("the app's copy of the path configuration is what the server answers")
    func pathConfiguration() throws {
        let version = try #require(configuration().pathConfiguration.ios["v1"])
        #expect(try json("ios/App/Resources/ios_v1.json") == version.json(.ios))
    }

    @Test("the push for the simulator leads to the ranking, parents first")
    func push() throws {
        guard case .string(let link)? = try json("ios/push.apns")["deepLink"] else {
            Issue.record("push.apns has no deep link")
            return
        }
        let match = try tree().resolve(DeepLink(link))
        #expect(match.steps.map(\.segment) == ["home", "soptamp", "entire-ranking"])
    }
}
