import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

/// The examples' server and app, held together.
@Suite struct ExamplesTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples")

    private func rules() throws -> NotificationRules {
        let file = Self.folder.appending(path: "campanile.yaml").path()
        let configuration = try Configuration.load(file: file, fileIsRequired: true, environment: [:], flags: .init())
        return configuration.notificationRules(of: AppName.standard)
    }

    private func json(_ path: String) throws -> JSONValue {
        try JSONValue(parsing: Array(Data(contentsOf: Self.folder.appending(path: path))))
    }

    @Test("the examples' configuration loads as it stands, and the app's copy of the deep links is what the server answers")
    func deepLinks() throws {
        #expect(try json("ios/App/Resources/deep_links.json") == rules().deepLinks.json)
    }

    @Test("the push for the simulator leads to the ranking, parents first")
    func push() throws {
        guard case .string(let link)? = try json("ios/push.apns")["deepLink"] else {
            Issue.record("push.apns has no deep link")
            return
        }
        let match = try rules().deepLinks.resolve(DeepLink(link))
        #expect(match.steps.map(\.segment) == ["home", "soptamp", "entire-ranking"])
    }
}
