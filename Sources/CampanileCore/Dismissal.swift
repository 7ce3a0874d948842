/// The notifications that a push takes off a device's notification centre.
package enum Dismissal: Sendable, Equatable {
    /// These, at most `mostIDs`.
    case ids([UUIDv7])
    /// This one and everything older.
    case through(UUIDv7)

    /// The most ids of one push: they fit beside an alert's words.
    package static let mostIDs = 20
}
