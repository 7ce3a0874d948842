/// The outcome of a record that is imported.
package enum ImportOutcome: String, CaseIterable, Sendable {
    /// It is new here.
    case made
    /// It was here already, at least as new.
    case known
    /// A device that left here, not before the record's registration.
    case left
    /// A device that was here, with an older registration.
    case renewed
    /// A device of another user that was here, with an older registration.
    case moved
    /// A device staler than the fifty that its user has.
    case surplus
}
