import CampanileCore
import Push
import Testing

@testable import CampanileServer

@Suite struct PushAnswersTests {
    @Test("lanes beyond the limit share their numbers; those before keep their own, and those of the configuration always have")
    func limit() {
        let mine = Lane(app: "mine", provider: .apns)
        var answers = PushAnswers(configured: [mine])
        for number in 0...Limits.namedLanes + 1 {
            answers.count(Lane(app: "app\(number)", provider: .apns), isAlert: true, .accepted)
        }
        answers.count(Lane(app: "app0", provider: .apns), isAlert: false, .rejected)
        #expect(answers.byLane.count == Limits.namedLanes + 1)
        let accepted = PushAnswers.Meaning(isAlert: true, word: .accepted)
        #expect(answers.byLane[.others(.apns)] == [accepted: 2])
        #expect(
            answers.byLane[Lane(app: "app0", provider: .apns)]
                == [accepted: 1, PushAnswers.Meaning(isAlert: false, word: .rejected): 1])
        answers.count(mine, isAlert: true, .accepted)
        #expect(answers.byLane[mine] == [accepted: 1] && answers.byLane[.others(.apns)] == [accepted: 2])
        #expect(!AppName.isValid(Lane.others(.apns).app), "no app can be called so")
    }

    @Test(
        "every outcome has its word",
        arguments: [
            (PushOutcome.accepted, AnswerWord.accepted), (.acceptedElsewhere(.sandbox), .accepted),
            (.deviceBusy(afterMilliseconds: nil), .retry), (.unavailable(afterMilliseconds: 1), .retry),
            (.unprocessed, .unprocessed), (.unanswered, .unanswered), (.tokenGone(since: nil), .gone), (.tokenForeign, .gone),
            (.rejected, .rejected), (.misconfigured, .misconfigured),
        ])
    func words(outcome: PushOutcome, word: AnswerWord) {
        #expect(AnswerWord(outcome) == word)
    }
}
