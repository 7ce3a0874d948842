import Logging
import Synchronization

/// A log that a test reads.
struct CollectingLog: LogHandler {
    final class Lines: Sendable {
        private let all = Mutex<[String]>([])
        var texts: [String] { all.withLock(\.self) }
        func append(_ text: String) { all.withLock { $0.append(text) } }
    }

    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { lines.append("\(event.level): \(event.message)") }
}
