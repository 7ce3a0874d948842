import CampanileCore

/// The settings of all cable connections.
final class CableRules: Sendable {
    /// The owner of the key that signed a stream's name.
    struct Signer: Sendable, Equatable {
        /// The app whose own streams it names.
        let name: ExactText
        /// True for the key of all apps, which may sign for the users of any.
        let isOfAll: Bool
    }

    let pattern: StreamNamePattern
    /// True if a connection without a user token is welcome; it may subscribe to signed streams only.
    let signedStreamsOnly: Bool
    let log: CableLog
    /// The app's own streams that connections have.
    let streams = IdentifiedStreams()
    /// The keys of all apps and of those that have their own.
    private let keys: [(signer: Signer, key: SignedStreamName.Key)]

    /// - Parameter keys: none: no signed name is valid.
    init(
        keys: [(signer: Signer, key: SignedStreamName.Key)], pattern: StreamNamePattern, signedStreamsOnly: Bool, log: CableLog
    ) {
        self.keys = keys
        self.pattern = pattern
        self.signedStreamsOnly = signedStreamsOnly
        self.log = log
    }

    /// The name, and who signed it, if the signature is right. If not, the log says so.
    func verify(_ signedName: String) -> (name: String, signer: Signer)? {
        for (signer, key) in keys {
            if let name = SignedStreamName.verify(signedName, key: key) { return (name, signer) }
        }
        log.unverified(keys.map(\.key.setting))
        return nil
    }
}
