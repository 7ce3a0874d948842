import CampanileCore
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
        let error = #expect(throws: OperatorError.self) {
            try OperatorCommands(configuration, isMade: false, world: .live)
        }
        #expect(error?.description == "There is no database \(configuration.database). Name it with --database.")
        #expect(!FileManager.default.fileExists(atPath: configuration.database))
    }

    @Test("a database that can't be looked at is not called missing")
    func unreadable() throws {
        let folder = NSTemporaryDirectory() + "campanile-unreadable-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        #expect(!Store.exists(folder + "/none"))
        #expect(!Store.exists(folder + "/none/none"))
        // A name that is too long can't be looked at, whoever asks; a forbidden folder root may enter.
        #expect(Store.exists(folder + "/" + String(repeating: "x", count: 300)))
    }

    @Test("the doctor finds that there is none, and makes none")
    func doctor() async throws {
        let configuration = try configuration()
        let findings = await Doctor(configuration, world: .live, logger: Logger(label: "test")).examine()
        #expect(findings.map(\.subject) == ["configuration", "cable", "database", "push"], "the rest is looked at all the same")
        #expect(findings.map(\.isGood) == [true, true, false, true])
        #expect(!FileManager.default.fileExists(atPath: configuration.database))
    }
}
