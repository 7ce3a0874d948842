/// The reason why a push can't be sent at the moment.
package struct PushTrouble: Error, Sendable, Equatable {
    package let outcome: PushOutcome
    /// A sentence without secrets.
    package let reason: String

    /// Nothing was sent, for lack of a token; doesn't count as an attempt.
    static func busy(_ reason: String) -> PushTrouble {
        PushTrouble(outcome: .unprocessed, reason: reason)
    }

    var answer: PushAnswer { PushAnswer(outcome: outcome, status: nil, reason: reason) }
}
