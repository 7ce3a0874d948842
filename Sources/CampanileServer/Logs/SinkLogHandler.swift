package import CampanileCore
package import Logging

/// swift-log into the sink: everything but the requests, which have a writer of their own.
package struct SinkLogHandler: LogHandler {
    package var metadata: Logger.Metadata = [:]
    /// The sink's, unless somebody gave this logger one of its own.
    package var logLevel: Logger.Level {
        get { ownLevel ?? sink.level }
        set { ownLevel = newValue }
    }
    private var ownLevel: Logger.Level?
    private let sink: LogSink
    private let world: World

    package init(sink: LogSink, world: World) {
        self.sink = sink
        self.world = world
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let line: String
        switch sink.format {
        case .text:
            let pairs = all.map { "  \($0.key)=\($0.value)" }.joined()
            line = "\(world.now()) \(event.level) \(event.message)\(pairs)"
        case .json:
            let members: [JSONValue.Member] = [
                .init("time", .string(world.now().description)), .init("level", .string(event.level.rawValue)),
                .init("message", .string(event.message.description)),
            ]
            let object = JSONValue.object(members + all.map { .init($0.key, .string($0.value.description)) })
            line = String(decoding: object.text, as: UTF8.self)
        }
        sink.append(isUrgent: true) { $0 += line.replacing("\n", with: " ").utf8 }
    }
}
