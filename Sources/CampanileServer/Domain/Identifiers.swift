import CampanileCore

/// The row of an inbox. It never changes and is never given to another.
package struct InboxID: Hashable, Sendable, CustomStringConvertible {
    package let rawValue: Int64
    package init(_ rawValue: Int64) { self.rawValue = rawValue }
    package var description: String { String(rawValue) }
}

/// The row of a device. A device that left and registers again gets another.
package struct DeviceID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let rawValue: Int64
    package init(_ rawValue: Int64) { self.rawValue = rawValue }
    package var description: String { String(rawValue) }
    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.rawValue < right.rawValue }
}

/// The row of an API key.
package struct APIKeyID: Hashable, Sendable, CustomStringConvertible {
    package let rawValue: Int64
    package init(_ rawValue: Int64) { self.rawValue = rawValue }
    package var description: String { String(rawValue) }
}

extension [UUIDv7] {
    /// Reads ids of 16 bytes, one after the other. Nil when the bytes end within an id.
    init?(all bytes: UnsafeRawBufferPointer) {
        guard bytes.count % 16 == 0 else { return nil }
        self = stride(from: 0, to: bytes.count, by: 16).compactMap { start in
            UUIDv7(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<start + 16]))
        }
        guard count == bytes.count / 16 else { return nil }
    }
}
