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
