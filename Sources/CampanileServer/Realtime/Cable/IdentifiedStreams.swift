import Synchronization

/// A stream of an app's own under the identifier that clients have for it.
final class IdentifiedStream: Sendable {
    let identifier: [UInt8]
    let stream: CableStream

    init(_ identifier: [UInt8], _ stream: CableStream) {
        self.identifier = identifier
        self.stream = stream
    }
}

/// The identifiers and names that connections have now, each kept once: the pages of an app subscribe alike, and there are thousands.
final class IdentifiedStreams: Sendable {
    /// The least number at which those that nobody has are looked for.
    private static let lookedThroughAt = 256

    private struct Known {
        var streams: [[UInt8]: IdentifiedStream] = [:]
        /// The number at which those that nobody has are dropped: twice as many as were left the last time.
        var most = IdentifiedStreams.lookedThroughAt
    }

    private let known = Mutex(Known())

    /// For a test.
    var count: Int { known.withLock { $0.streams.count } }

    /// The one that others have, or a new one. Only what an app's key signed is shared: there everybody's identifier says the same.
    func shared(_ identifier: [UInt8], _ stream: CableStream) -> IdentifiedStream {
        guard case .own = stream else { return IdentifiedStream(identifier, stream) }
        return known.withLock { known in
            if let found = known.streams[identifier], found.stream == stream { return found }
            if known.streams.count >= known.most { IdentifiedStreams.dropUnused(&known) }
            let made = IdentifiedStream(identifier, stream)
            known.streams[identifier] = made
            return made
        }
    }

    private static func dropUnused(_ known: inout Known) {
        var used: [[UInt8]: IdentifiedStream] = [:]
        // A loop over `indices` would hold all of them a second time.
        var index = known.streams.startIndex
        while index < known.streams.endIndex {
            if !isKnownUniquelyReferenced(&known.streams.values[index]) {
                used[known.streams.keys[index]] = known.streams.values[index]
            }
            index = known.streams.index(after: index)
        }
        known.streams = used
        known.most = max(lookedThroughAt, used.count * 2)
    }
}
