import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Checkpoints by another program") struct CheckpointSettingTests {
    /// The bytes of the log after a server's stop, while another program has the database open.
    private static func logBytes(databaseCheckpoints: Bool) async throws -> Int {
        let folder = TemporaryFolder()
        let server = try await RunningServer(folder: folder) { $0.databaseCheckpoints = databaseCheckpoints }
        let producer = try server.producer()
        _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T","body":"B"}"#, as: producer)
        var options = DatabaseOptions()
        options.walAutocheckpointPages = .max
        let other = try Database(path: folder.database, options: options)
        defer { other.close() }
        await server.stop()
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.database + "-wal")
        return try #require(attributes[.size] as? Int)
    }

    @Test("a server that leaves the log to another program doesn't fold it in, not even at its stop")
    func stop() async throws {
        #expect(try await Self.logBytes(databaseCheckpoints: false) > 0)
        #expect(try await Self.logBytes(databaseCheckpoints: true) == 0, "the control")
    }
}
