import CampanileCore
import SQLEngine

/// `campanile doctor --stream`: one of an app's own streams as Rails signs its name, and a test broadcast to it.
extension Doctor {
    /// An HTML comment, of which Turbo draws nothing.
    static let testBroadcast = "<!-- campanile doctor -->"

    /// - Throws: `OperatorError` when there is no such stream, or the database can't be used.
    package func broadcast(to stream: String, app: String) async throws -> [Finding] {
        try OperatorCommands.check(app)
        guard (1...Limits.broadcastStreamBytes).contains(stream.utf8.count) else {
            throw OperatorError("A stream's name has 1 to \(Limits.broadcastStreamBytes) bytes.")
        }
        guard try StreamNamePattern(configuration.cable.streamName).target(of: stream) == nil else {
            throw OperatorError("\(stream) is one of the streams of cable.stream_name, the badges', to which nobody broadcasts.")
        }
        return [try signing(of: stream, app: app), try await sendTest(to: stream, app: app)]
    }

    private func signing(of stream: String, app: String) throws -> Finding {
        guard let key = try configuration.streamKey(of: app) else {
            let sentence = "No key of the app \(app) signs names: set \(configuration.streamKeySettings(of: app))."
            return Finding(subject: "stream", isGood: false, sentence: sentence)
        }
        return Finding(subject: "stream", isGood: true, sentence: Doctor.comparison(of: stream, key))
    }

    private func sendTest(to stream: String, app: String) async throws -> Finding {
        guard let database = try openExisting() else {
            throw OperatorError(
                "There is no database at \(configuration.database): `serve` makes it, or name another with --database.")
        }
        defer { database.close() }
        let hints = try ClusterHints(database)
        defer { hints?.close() }
        let broadcast = Broadcast(
            stream: stream, id: nil, message: String(decoding: JSONValue.string(Doctor.testBroadcast).text, as: UTF8.self))
        let (keeping, world) = (configuration.broadcasts, world)
        let offset = try await database.write(hints: [.broadcasts(app: app)]) { transaction in
            _ = try transaction.broadcasts.add([broadcast], app: app, keeping) { Broadcasts.epoch(world) }
            return try transaction.broadcasts.series(of: app)?.lastOffset ?? 0
        }
        hints?.broadcast()
        let sentence = """
            \(Doctor.testBroadcast) is kept as number \(offset) of the app's broadcasts. Every page that listens gets it as a message of its \
            cable, and draws nothing. The console says how many listen.
            """
        return Finding(subject: "broadcast", isGood: true, sentence: sentence)
    }
}
