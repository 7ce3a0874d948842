import Testing

@testable import Push

@Suite struct PushAnswerTests {
    @Test("an answer keeps the provider's own word")
    func reason() {
        let answer = PushAnswer(outcome: .rejected, status: 400, reason: "BadTopic")
        #expect(answer.reason == "BadTopic")
        #expect(answer.outcome == .rejected)
    }
}
