import CampanileCore
import Push

/// A push that was answered.
struct AnsweredPush: Sendable {
    let push: ClaimedPush
    let answer: PushAnswer
    let at: Timestamp
    /// True if `DeadTokenGuard` has counted and judged it already.
    var isJudged = false
}

/// Settling: records the provider's answer and the told number, and computes the device's next push.
struct DeliverySettlements: Sendable {
    let badgePushes: BadgePushes
    let policy: OutcomePolicy
    let random: @Sendable () -> UInt64
    /// False in a control, which settles what another node has taken over.
    var checksLeases = true

    /// - Parameter isSpared: whether none of the app's tokens is believed to be dead.
    func settle(_ answered: AnsweredPush, isSpared: Bool, in transaction: StoreTransaction) throws {
        let push = answered.push
        let device = try transaction.deviceTokens.answered(push.device, policy: badgePushes.policy)
        // Another node may have the device's pushes now, and has sent this one again or will.
        // Nor is a push settled twice after a commit whose answer was lost: the device may have the next one in flight by now.
        if checksLeases, let schedule = device?.schedule,
            schedule.lease != push.lease || (schedule.sending != nil && schedule.sending != push.delivery?.notificationID)
        {
            return
        }
        let registeredAt = device?.schedule.lastRegisteredAt ?? transaction.now
        // Times of registrations are compared with each other, not with the push's: the clock may have been set back.
        let isRegisteredAnew = registeredAt != push.registeredAt
        let circumstances = OutcomePolicy.Circumstances(
            attempts: push.attempt, lastRegisteredAt: registeredAt, isRegisteredAnew: isRegisteredAnew, isSpared: isSpared,
            now: transaction.now, jitter: random())
        let decision = policy.decide(answered.answer.outcome, circumstances)
        let busyUntil = policy.busyUntil(answered.answer.outcome, circumstances)
        try settleDelivery(answered, decision, isBusy: busyUntil != nil, inbox: device?.schedule.inbox, in: transaction)
        // The device may have been deleted meanwhile: then nothing is owed.
        guard let device else { return }
        if decision == .dropDevice {
            // Many may die in one transaction.
            try transaction.removeDevice(push.device, hasLeft: true, limit: Limits.goneAlertsPerAnswer)
            return
        }
        if case .acceptedElsewhere(let environment) = answered.answer.outcome, !isRegisteredAnew {
            try transaction.deviceTokens.setEnvironment(environment, push.device)
        }
        var schedule = device.schedule
        settleBadge(&schedule, answered, decision, now: transaction.now)
        // It would take the others no better.
        schedule.busyUntil = busyUntil
        schedule.lease = 0
        schedule.sending = nil
        try oweNext(&schedule, decision, device.badge, in: transaction)
        try transaction.deviceTokens.store(schedule)
    }

    /// - Parameters:
    ///   - isBusy: whether the device waits, and the delivery with all others to it.
    ///   - inbox: whose the device is now; nil when it left.
    private func settleDelivery(
        _ answered: AnsweredPush, _ decision: OutcomePolicy.Decision, isBusy: Bool, inbox: InboxID?,
        in transaction: StoreTransaction
    ) throws {
        guard let delivery = answered.push.delivery else { return }
        let device = answered.push.device
        switch decision {
        case .settle(let state):
            try transaction.deliveries.settle(
                notification: delivery.notificationID, device: device, state, answer: DeliverySettlements.text(answered))
        case .retry(var dueAt, let isCounted) where inbox == delivery.inbox:
            // Due since it was created, it keeps its place before those that were created after it.
            if isBusy { dueAt = min(transaction.now, delivery.createdAt ?? transaction.now) }
            try transaction.deliveries.retry(
                notification: delivery.notificationID, device: device, dueAt: dueAt, isCounted: isCounted,
                answer: DeliverySettlements.text(answered))
        // The token died, or moved or left while the push was under way: it must not reach the next owner.
        case .retry, .dropDevice:
            try transaction.deliveries.settle(
                notification: delivery.notificationID, device: device, .gone, answer: DeliverySettlements.text(answered))
        }
    }

    private func settleBadge(
        _ schedule: inout DeviceSchedule, _ answered: AnsweredPush, _ decision: OutcomePolicy.Decision, now: Timestamp
    ) {
        let push = answered.push
        // The badge changed while this badge push was in flight: the newer one doesn't wait for the older one's retry.
        let isReplanned = push.delivery == nil && schedule.badgeAttempts != push.attempt
        switch decision {
        case .settle(.accepted):
            if let count = push.toldCount {
                schedule.toldCount = count
                schedule.toldAt = now
            }
            schedule.badgeAttempts = 0
            schedule.badgeDueAt = nil
        case .retry(let dueAt, let isCounted):
            // It may have arrived all the same: what the device shows is not known.
            if push.toldCount != nil { schedule.toldCount = nil }
            guard push.delivery == nil, !isReplanned else { return }
            schedule.badgeDueAt = dueAt
            if !isCounted { schedule.badgeAttempts = max(0, schedule.badgeAttempts - 1) }
        case .settle(let state):
            // Given up without an answer, it may have arrived.
            if state == .failed, push.toldCount != nil { schedule.toldCount = nil }
            guard push.delivery == nil, !isReplanned else { return }
            schedule.badgeDueAt = nil
            schedule.badgeAttempts = Int64(Limits.deliveryAttempts)
        case .dropDevice: return
        }
    }

    /// Plans the next push after the answer: a due alert, which carries the badge itself; else a badge push if the told
    /// number isn't the present badge.
    private func oweNext(
        _ schedule: inout DeviceSchedule, _ decision: OutcomePolicy.Decision, _ badge: Badge, in transaction: StoreTransaction
    ) throws {
        let alertDueAt = try transaction.deliveries.nextDueAt(device: schedule.id)
        let isAlertDue = alertDueAt.map { $0 <= transaction.now } ?? false
        // What is due may be left of another user's, which doesn't go.
        if try !isAlertDue || transaction.departedDevices.isLeft(of: schedule.id) {
            var notBefore: Timestamp?
            if case .retry(let at, _) = decision { notBefore = at }
            badgePushes.owe(&schedule, badge, notBefore: notBefore, now: transaction.now)
        }
        schedule.look(at: [schedule.badgeDueAt, alertDueAt].compactMap(\.self).min())
    }

    /// One answer as JSON, for the producer's query; nil for the usual one, which the state shows.
    private static func text(_ answered: AnsweredPush) -> String? {
        let answer = answered.answer
        if answer.outcome == .accepted, answered.push.attempt == 1, answer.status == 200, answer.reason == nil { return nil }
        return String(decoding: json(answer, at: answered.at).text, as: UTF8.self)
    }

    static func json(_ answer: PushAnswer, at: Timestamp) -> JSONValue {
        let reason = answer.reason.map { String(decoding: $0.utf8.prefix(Limits.answerReasonBytes), as: UTF8.self) }
        return .object([
            .init("at", .string(at.description)), .init("outcome", .string(AnswerWord(answer.outcome).rawValue)),
            .init("status", answer.status.map { .integer(Int64($0)) } ?? .null),
            .init("reason", reason.map { .string($0) } ?? .null),
        ])
    }
}
