/// The settings of all cable connections.
final class CableRules: Sendable {
    let pattern: StreamNamePattern
    /// True if a connection without a user token is welcome; it may subscribe to signed streams only.
    let signedStreamsOnly: Bool
    let log: CableLog
    private let key: SignedStreamName.Key?

    /// - Parameter key: nil: no signed name is valid.
    init(key: SignedStreamName.Key?, pattern: StreamNamePattern, signedStreamsOnly: Bool, log: CableLog) {
        self.key = key
        self.pattern = pattern
        self.signedStreamsOnly = signedStreamsOnly
        self.log = log
    }

    /// The name, if the signature is right. If not, the log says so.
    func verify(_ signedName: String) -> String? {
        if let key, let name = SignedStreamName.verify(signedName, key: key) { return name }
        log.unverified(key)
        return nil
    }
}
