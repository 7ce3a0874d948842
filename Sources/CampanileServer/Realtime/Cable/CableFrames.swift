import NIOCore

/// The frames of batches that were made last, each once for an identifier: the connections of one page's readers share the
/// identifier, and get the same bytes. What is kept is bounded for all together, and nothing is kept with the batches: they may
/// wait for one slow client long after all others have them.
struct CableFrames {
    private struct Key: Hashable {
        let batch: UInt64
        let message: Int
        let isExtended: Bool
        let identifier: [UInt8]

        func hash(into hasher: inout Hasher) {
            hasher.combine(batch)
            hasher.combine(message)
            hasher.combine(isExtended)
            // At once: byte by byte it was a tenth of what a delivery costs.
            identifier.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }

    /// The cost of an entry beside its bytes, about.
    private static let entryBytes = 256

    private var frames: [Key: ByteBuffer] = [:]
    /// The oldest first.
    private var order = Line<Key>()
    /// The cost of keeping them, in bytes.
    private(set) var bytes = 0

    mutating func frame(_ message: Int, of batch: EventBatch, isExtended: Bool, under identifier: [UInt8]) -> ByteBuffer {
        let key = Key(batch: batch.number, message: message, isExtended: isExtended, identifier: identifier)
        if let known = frames[key] { return known }
        let text = CableText.message(message, of: batch, isExtended: isExtended, identifier: identifier)
        let made = WebSocketFrameWriter.text(text)
        keep(made, key)
        return made
    }

    private mutating func keep(_ frame: ByteBuffer, _ key: Key) {
        let cost = CableFrames.cost(frame, key)
        guard cost <= Limits.cableSharedFrameBytes else { return }
        while bytes + cost > Limits.cableSharedFrameBytes, let oldest = order.popFirst() {
            if let former = frames.removeValue(forKey: oldest) { bytes -= CableFrames.cost(former, oldest) }
        }
        frames[key] = frame
        order.append(key)
        bytes += cost
    }

    private static func cost(_ frame: ByteBuffer, _ key: Key) -> Int {
        frame.storageCapacity + key.identifier.count + entryBytes
    }
}
