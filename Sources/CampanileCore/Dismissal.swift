/// The notifications that a push takes off a device's notification centre.
package enum Dismissal: Sendable, Equatable {
    /// These, at most `mostIDs`.
    case ids([UUIDv7])
    /// This one and everything older.
    case through(UUIDv7)

    /// As many as fit into a push beside an alert's words.
    package static let mostIDs = 20
}
