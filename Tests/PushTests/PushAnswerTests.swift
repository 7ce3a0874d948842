import CampanileCore
import Testing

@testable import Push

@Suite struct PushAnswerTests {
    @Test("an answer keeps the provider's own word")
    func reason() {
        let answer = PushAnswer(outcome: .rejected, status: 400, reason: "BadTopic")
        #expect(answer.reason == "BadTopic")
        #expect(answer.outcome == .rejected)
    }

    @Test(
        "an outcome is words in the log",
        arguments: [
            (
                PushOutcome.tokenGone(since: Timestamp(milliseconds: 1_795_000_000_000)),
                "token gone since 2026-11-18T11:06:40.000Z"
            ),
            (.tokenGone(since: nil), "token gone"), (.deviceBusy(afterMilliseconds: 500), "device busy, not before 500 ms"),
            (.deviceBusy(afterMilliseconds: nil), "device busy"),
            (.unavailable(afterMilliseconds: 1), "unavailable, not before 1 ms"),
            (.acceptedElsewhere(.sandbox), "accepted in sandbox"), (.tokenForeign, "token of another app"),
            (.rejected, "rejected"),
        ])
    func words(outcome: PushOutcome, words: String) {
        #expect("\(outcome)" == words)
    }
}
