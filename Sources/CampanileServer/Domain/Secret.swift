/// A text that must not be seen: a signing key, a bearer token.
///
/// It hides itself from `print`, string interpolation, `debugPrint`, `dump`, `Mirror` and a test's failure message,
/// alone and inside whatever holds it. The only way to the text is ``exposed``, so that a search for that word finds
/// every place that handles it.
package struct Secret: Sendable {
    /// The text itself. Never to be logged, put in an error or sent to anybody.
    package let exposed: String

    package init(_ text: String) {
        exposed = text
    }
}

extension Secret: Equatable {
    /// Compares every byte whatever was found before, so that the time taken says nothing about where two secrets
    /// differ. Their lengths are not hidden.
    package static func == (left: Secret, right: Secret) -> Bool { left.isToken(Array(right.exposed.utf8)) }

    /// Compares what somebody presents, in the same way.
    func isToken(_ presented: [UInt8]) -> Bool {
        let own = Array(exposed.utf8)
        guard own.count == presented.count else { return false }
        return zip(own, presented).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(redacted)" }
    package var debugDescription: String { "(redacted)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
