import Foundation
import Logging
import Testing

@testable import CampanileServer

/// A path that was mistyped must not look like an empty server.
@Suite struct MissingDatabaseTests {
    private func configuration() throws -> Configuration {
        let path = NSTemporaryDirectory() + "campanile-missing-\(UUID().uuidString)/typo.sqlite"
        return try Configuration.load(
            file: path + ".yaml", fileIsRequired: false, environment: [:], flags: Configuration.Flags(database: path))
    }

    @Test("who only looks at a database or takes something away is told that there is none, and makes none")
    func looking() throws {
        let configuration = try configuration()
        let error = #expect(throws: Operations.Refusal.self) {
            try Operations(configuration, isMade: false, world: .live)
        }
        #expect(error?.description == "There is no database \(configuration.database). Name it with --database.")
        #expect(!FileManager.default.fileExists(atPath: configuration.database))
    }

    @Test("the doctor finds that there is none, and makes none")
    func doctor() async throws {
        let configuration = try configuration()
        let findings = await Doctor(configuration, world: .live, logger: Logger(label: "test")).examine()
        #expect(findings.map(\.subject) == ["configuration", "database"])
        #expect(findings.map(\.isGood) == [true, false])
        #expect(!FileManager.default.fileExists(atPath: configuration.database))
    }
}
