import Logging
import Synchronization

/// What holds for all cable connections.
final class CableRules: Sendable {
    let pattern: StreamNamePattern
    /// Whether a connection without a user token is welcome; it may subscribe to signed streams only.
    let signedStreamsOnly: Bool
    private let key: SignedStreamName.Key?
    private let logger: Logger
    /// The beginnings of names that were signed for somebody else, each told once.
    private let foreign = Mutex<Set<String>>([])

    /// - Parameter key: nil: no signed name is valid.
    init(key: SignedStreamName.Key?, pattern: StreamNamePattern, signedStreamsOnly: Bool, logger: Logger) {
        self.key = key
        self.pattern = pattern
        self.signedStreamsOnly = signedStreamsOnly
        self.logger = logger
    }

    func verify(_ signedName: String) -> String? {
        guard let key else { return nil }
        return SignedStreamName.verify(signedName, key: key)
    }

    /// Why something a client said had no effect.
    func log(_ sentence: String) {
        logger.debug("A cable command had no effect.", metadata: ["reason": "\(sentence)"])
    }

    /// A page may subscribe to streams of its own application here; they stay silent, which surprises whoever expects
    /// something else. Said once for each kind of name: its first letters, and not the rest, which may name a person.
    func noteForeignStream(_ name: String) {
        let kind = String(name.prefix { $0.isLetter || $0 == "_" }.prefix(Limits.cableForeignStreamCharacters))
        let isNew = foreign.withLock { foreign in
            foreign.count < Limits.cableForeignStreams && foreign.insert(kind).inserted
        }
        guard isNew else { return }
        logger.notice(
            "A page subscribed to a stream that Campanile sends nothing to: its name doesn't match cable.stream_name.",
            metadata: ["kind": "\(kind)"])
    }
}
