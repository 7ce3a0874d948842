/// Why a push can't be sent at all at the moment.
package struct PushTrouble: Error, Sendable, Equatable {
    package let outcome: PushOutcome
    /// A sentence without secrets.
    package let reason: String

    static func busy(_ reason: String) -> PushTrouble {
        PushTrouble(outcome: .unavailable(afterMilliseconds: nil), reason: reason)
    }

    var answer: PushAnswer { PushAnswer(outcome: outcome, status: nil, reason: reason) }
}
