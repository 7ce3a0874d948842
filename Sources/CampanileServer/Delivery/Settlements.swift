import CampanileCore
import Push
import SQLEngine

/// A push that was answered.
struct AnsweredPush: Sendable {
    let push: ClaimedPush
    let answer: PushAnswer
    let at: Timestamp
}

/// Settling: notes what the provider said and what the device was told, and computes what is owed to it next.
struct Settlements: Sendable {
    let badgePushes: BadgePushes
    let random: @Sendable () -> UInt64

    func settle(_ answered: AnsweredPush, now: Timestamp, in connection: Connection) throws {
        let push = answered.push
        let device = try DeviceTokenRepository.answered(push.device, policy: badgePushes.policy, in: connection)
        let decision = OutcomePolicy.decide(
            answered.answer.outcome, attempts: push.attempt, sentAt: push.message.sentAt,
            lastRegisteredAt: device?.lastRegisteredAt ?? now, now: now, jitter: random())
        try settleDelivery(answered, decision, inbox: device?.schedule.inbox, now: now, in: connection)
        // The device may have been deleted meanwhile: then there is nobody to tell anything.
        guard let device else { return }
        var schedule = device.schedule
        if decision == .dropDevice {
            try DeviceRegistry.remove(push.device, now: now, in: connection)
            return
        }
        settleBadge(&schedule, push, decision, now: now)
        if answered.answer.outcome == .misconfigured, push.delivery == nil {
            // It couldn't have succeeded, whatever it was.
            schedule.badgeAttempts = max(0, schedule.badgeAttempts - 1)
        }
        schedule.isInFlight = false
        try oweNext(&schedule, decision, count: device.badge.count, now: now, in: connection)
        try DeviceTokenRepository.store(schedule, in: connection)
    }

    /// - Parameter inbox: whose the device is now; nil when it left.
    private func settleDelivery(
        _ answered: AnsweredPush, _ decision: OutcomePolicy.Decision, inbox: Int64?, now: Timestamp,
        in connection: Connection
    ) throws {
        guard let delivery = answered.push.delivery else { return }
        let device = answered.push.device
        let answer = Settlements.text(answered)
        switch decision {
        case .settle(let state):
            try DeliveryRepository.settle(
                notification: delivery.notificationID, device: device, state, at: now, answer: answer, in: connection)
        case .retry(let dueAt):
            if inbox == delivery.inbox {
                try DeliveryRepository.retry(
                    notification: delivery.notificationID, device: device, dueAt: dueAt,
                    isCounted: answered.answer.outcome != .misconfigured, answer: answer, in: connection)
            } else {
                // The token moved or left while the push was under way: it must not reach the next owner.
                try DeliveryRepository.settle(
                    notification: delivery.notificationID, device: device, .gone, at: now, answer: answer, in: connection)
            }
        case .dropDevice:
            try DeliveryRepository.settle(
                notification: delivery.notificationID, device: device, .gone, at: now, answer: answer, in: connection)
        }
    }

    private func settleBadge(
        _ schedule: inout DeviceSchedule, _ push: ClaimedPush, _ decision: OutcomePolicy.Decision, now: Timestamp
    ) {
        switch decision {
        case .settle(.accepted):
            if let count = push.toldCount {
                schedule.toldCount = count
                schedule.toldAt = now
            }
            schedule.badgeAttempts = 0
            schedule.badgeDueAt = nil
        case .retry(let dueAt):
            // It may have arrived all the same: what the device shows is not known.
            if push.toldCount != nil { schedule.toldCount = nil }
            if push.delivery == nil { schedule.badgeDueAt = dueAt }
        case .settle, .dropDevice:
            if push.delivery == nil {
                schedule.badgeDueAt = nil
                schedule.badgeAttempts = Int64(Limits.deliveryAttempts)
            }
        }
    }

    /// What is owed after the answer: an alert that is due carries the badge itself; else a badge push if what the device
    /// was told is not the badge of now.
    private func oweNext(
        _ schedule: inout DeviceSchedule, _ decision: OutcomePolicy.Decision, count: Int64, now: Timestamp,
        in connection: Connection
    ) throws {
        let alertDueAt = try DeliveryRepository.nextDueAt(device: schedule.id, in: connection)
        let isAlertDue = alertDueAt.map { $0 <= now } ?? false
        if !isAlertDue {
            var notBefore: Timestamp?
            if case .retry(let at) = decision { notBefore = at }
            badgePushes.owe(&schedule, count: count, notBefore: notBefore, now: now)
        }
        schedule.dueAt = [schedule.badgeDueAt, alertDueAt].compactMap(\.self).min()
    }

    /// One answer as JSON, for the producer who asks why.
    private static func text(_ answered: AnsweredPush) -> String {
        let outcome: JSONValue =
            switch answered.answer.outcome {
            case .accepted, .acceptedElsewhere: "accepted"
            case .deviceBusy, .unavailable: "retry"
            case .unprocessed: "unprocessed"
            case .unanswered: "unanswered"
            case .tokenGone: "gone"
            case .rejected, .tokenForeign: "rejected"
            case .misconfigured: "misconfigured"
            }
        let answer = answered.answer
        let reason = answer.reason.map { String(decoding: $0.utf8.prefix(Limits.answerReasonBytes), as: UTF8.self) }
        let object = JSONValue.object([
            .init("at", .string(answered.at.description)), .init("outcome", outcome),
            .init("status", answer.status.map { .integer(Int64($0)) } ?? .null),
            .init("reason", reason.map { .string($0) } ?? .null),
        ])
        return String(decoding: object.text, as: UTF8.self)
    }
}
