import CampanileCore
import Logging
import Synchronization

/// A limit of a connection. A subscription beyond it is rejected.
enum CableLimit: Hashable, CaseIterable {
    case identifier
    case subscriptions
    case identifiers
    case subscriptionsOfStream
    case identifiersOfStream

    var sentence: String {
        switch self {
        case .identifier: "An identifier has more than \(Limits.cableIdentifierBytes) bytes."
        case .subscriptions: "A connection has \(Limits.cableSubscriptions) subscriptions."
        case .identifiers: "A connection's identifiers have more than \(Limits.cableIdentifiersBytes) bytes together."
        case .subscriptionsOfStream:
            "A connection has \(Limits.cableSubscriptionsPerStream) subscriptions to one stream, under different identifiers."
        case .identifiersOfStream:
            "A connection's identifiers for one stream have more than \(Limits.cableIdentifierBytesPerStream) bytes together."
        }
    }
}

/// The lines that the cable writes into the log about what clients do. Clients decide how often that happens, so each thing is
/// told once a minute at most, with how often it happened since.
final class CableLog: Sendable {
    private enum Matter: Hashable {
        case limit(CableLimit)
        case unverified
        case noKey
        case unknownChannel
        case vainCommand
        case reservedStream
        case closed(String)
    }

    private struct Told {
        let at: Timestamp
        /// Not told since.
        var more = 0
    }

    private let logger: Logger
    private let now: @Sendable () -> Timestamp
    private let told = Mutex<[Matter: Told]>([:])

    init(_ logger: Logger, now: @escaping @Sendable () -> Timestamp) {
        self.logger = logger
        self.now = now
    }

    /// Says why something a client said had no effect.
    func noEffect(_ sentence: String) {
        logger.debug("A cable command had no effect.", metadata: ["reason": "\(sentence)"])
    }

    func rejected(_ limit: CableLimit) { tell(.limit(limit), "A cable subscription was rejected: \(limit.sentence)") }

    /// A client that passed a limit and was closed for it. Its page sees the same reason in the close event.
    func closed(_ reason: String) { tell(.closed(reason), "A cable client was closed with 1008: it sent \(reason).") }

    /// A signature that is not right looks the same as no message, on the page and in the browser's console: so it is said here.
    /// - Parameter settings: where the keys come from.
    func unverified(_ settings: [String]) {
        guard !settings.isEmpty else {
            return tell(
                .noKey,
                "A page subscribed to a signed stream, and no key is set to verify its name: set cable.signed_stream_key or"
                    + " cable.secret_key_base.")
        }
        tell(
            .unverified,
            "A signed stream name did not verify: it is forged, or \(settings.joined(separator: " or ")) isn't the key with which the Rails application signs."
                + " `campanile doctor` prints a signed name to compare.")
    }

    /// A channel that only the app's own code knows.
    func unknownChannel() {
        tell(
            .unknownChannel,
            "A page subscribed to a channel that needs the app's own code, and was rejected. Campanile serves Turbo::StreamsChannel and"
                + " NotificationsChannel; leave the page a second consumer, at the app's own /cable, for the others.")
    }

    /// A command of AnyCable's whose identifier names no user.
    func vainCommand() {
        tell(
            .vainCommand,
            "A command at /_broadcast ended no connection: it isn't `disconnect`, or its identifier names no user by an id or a GlobalID."
        )
    }

    /// A message of AnyCable's to a stream that the server alone writes.
    func reservedStream() {
        tell(
            .reservedStream,
            "A message at /_broadcast was passed over: it is to one of the streams of cable.stream_name, which Campanile alone writes."
        )
    }

    private func tell(_ matter: Matter, _ message: String) {
        let now = now()
        let more: Int? = told.withLock { told in
            if let last = told[matter], last.at.milliseconds + Limits.cableNoticeMilliseconds > now.milliseconds {
                told[matter]?.more += 1
                return nil
            }
            defer { told[matter] = Told(at: now) }
            return told[matter]?.more ?? 0
        }
        guard let more else { return }
        logger.warning("\(message)", metadata: more > 0 ? ["untold": "\(more)"] : nil)
    }
}
