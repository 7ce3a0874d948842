import CampanileCore
import Push

/// A push that was answered.
struct AnsweredPush: Sendable {
    let push: ClaimedPush
    private(set) var answer: PushAnswer
    let at: Timestamp
    /// When it was sent, in nanoseconds of the monotonic clock; nil if it wasn't.
    let sentAt: Int64?
    /// True if its app's credentials were replaced after it was sent: it says nothing of the present ones.
    private(set) var isOutdated = false
    /// True if `DeadTokenGuard` has counted and judged it already.
    var isJudged = false

    init(push: ClaimedPush, answer: PushAnswer, at: Timestamp, sentAt: Int64? = nil) {
        self.push = push
        self.answer = answer
        self.at = at
        self.sentAt = sentAt
    }

    /// Takes a refusal of the device token back: the present credentials may reach it. The push goes again.
    mutating func becomeOutdated() {
        isOutdated = true
        switch answer.outcome {
        case .tokenGone, .tokenForeign:
            answer = PushAnswer(outcome: .unprocessed, status: answer.status, reason: answer.reason)
        default: return
        }
    }
}

/// Settling: records the provider's answer and the told number, and computes the device's next push.
struct DeliverySettlements: Sendable {
    let badgePushes: BadgePushes
    let policy: OutcomePolicy
    let random: @Sendable () -> UInt64
    var rules = PerApp(all: NotificationRules())
    /// False in a control, which settles what another node has taken over.
    var checksLeases = true

    /// - Parameter isSpared: whether none of the app's tokens is believed to be dead.
    func settle(_ answered: AnsweredPush, isSpared: Bool, in transaction: StoreTransaction) throws {
        let device = try transaction.deviceTokens.answered(answered.push.device)
        guard let settlement = settlement(of: answered, device, isSpared: isSpared, now: transaction.now) else { return }
        if let delivery = answered.push.delivery {
            try save(settlement.delivery, of: delivery, answered, in: transaction)
        }
        if settlement.dropsDevice {
            // Many may die in one transaction.
            try transaction.removeDevice(answered.push.device, hasLeft: true, limit: Limits.goneAlertsPerAnswer)
            return
        }
        if let environment = settlement.environment {
            try transaction.deviceTokens.setEnvironment(environment, answered.push.device)
        }
        if let schedule = settlement.schedule { try transaction.deviceTokens.store(schedule) }
    }

    private func save(
        _ change: DeliveryChange, of delivery: Delivery, _ answered: AnsweredPush, in transaction: StoreTransaction
    ) throws {
        let (id, device) = (delivery.notificationID, answered.push.device)
        let text = DeliverySettlements.text(answered)
        switch change {
        case .settle(let state): try transaction.deliveries.settle(notification: id, device: device, state, answer: text)
        case .retry(let dueAt, let isCounted):
            try transaction.deliveries.retry(
                notification: id, device: device, dueAt: dueAt, isCounted: isCounted, answer: text)
        }
    }

    // MARK: - Deciding

    /// The result of an answer.
    struct Settlement: Sendable {
        /// For the push's delivery, if it has one.
        let delivery: DeliveryChange
        /// Nil when the device is gone, or goes.
        var schedule: DeviceSchedule?
        var dropsDevice = false
        /// The service that took the token, if that is the other one of Apple's two.
        var environment: DeviceEnvironment?
    }

    enum DeliveryChange: Sendable, Equatable {
        case settle(DeliveryState)
        case retry(dueAt: Timestamp, isCounted: Bool)
    }

    /// - Parameter device: nil when it was deleted meanwhile.
    /// - Returns: nil when the push was another node's by then, or was settled already.
    func settlement(
        of answered: AnsweredPush, _ device: AnsweredDevice?, isSpared: Bool, now: Timestamp
    ) -> Settlement? {
        let push = answered.push
        // Another node may have the device's pushes now, and has sent this one again or will.
        // Nor is a push settled twice after a commit whose answer was lost: the device may have the next one in flight by now.
        if checksLeases, let schedule = device?.schedule,
            schedule.lease != push.lease || (schedule.sending != nil && schedule.sending != push.delivery?.notificationID)
        {
            return nil
        }
        let registeredAt = device?.schedule.lastRegisteredAt ?? now
        // Times of registrations are compared with each other, not with the push's: the clock may have been set back.
        let isRegisteredAnew = registeredAt != push.registeredAt
        let isEdit = push.delivery?.isEdit ?? false
        let circumstances = OutcomePolicy.Circumstances(
            // The first alert's attempts aren't the edit's, which ends by its age.
            attempts: isEdit ? Limits.attemptsOfEdit : push.attempt, lastRegisteredAt: registeredAt,
            isRegisteredAnew: isRegisteredAnew,
            isReplaced: device.map { $0.token != push.message.device.token } ?? false, isSpared: isSpared, now: now,
            jitter: random())
        let decision = policy.decide(answered.answer.outcome, circumstances)
        let busyUntil = circumstances.isReplaced ? nil : policy.busyUntil(answered.answer.outcome, circumstances)
        let change = change(of: push.delivery, decision, isBusy: busyUntil != nil, owner: device?.schedule.inbox, now: now)
        var settlement = Settlement(delivery: change)
        // The device may have been deleted meanwhile: then nothing is owed.
        guard let device else { return settlement }
        settlement.dropsDevice = decision == .dropDevice
        guard !settlement.dropsDevice else { return settlement }
        if case .acceptedElsewhere(let environment) = answered.answer.outcome, !isRegisteredAnew {
            settlement.environment = environment
        }
        var schedule = device.schedule
        settleBadge(&schedule, answered, decision, now: now)
        var alertDueAt = device.nextDueAt
        // Unless the alert ended meanwhile, because the device left its user, it is due again.
        if case .retry(let dueAt, _) = change, let delivery = push.delivery, schedule.sending == delivery.notificationID {
            alertDueAt = alertDueAt.map { min($0, dueAt) } ?? dueAt
        }
        // It would take the others no better.
        schedule.busyUntil = busyUntil
        schedule.lease = 0
        schedule.sending = nil
        oweNext(&schedule, decision, device, alertDueAt, now: now)
        settlement.schedule = schedule
        return settlement
    }

    /// - Parameters:
    ///   - isBusy: whether the device waits, and the delivery with all others to it.
    ///   - owner: the inbox that the device is in now; nil when it left.
    private func change(
        of delivery: Delivery?, _ decision: OutcomePolicy.Decision, isBusy: Bool, owner: InboxID?, now: Timestamp
    ) -> DeliveryChange {
        switch decision {
        // Whatever became of an edit, the device has the alert.
        case .settle(.rejected) where delivery?.isEdit == true, .settle(.failed) where delivery?.isEdit == true:
            return .settle(.accepted)
        case .settle(let state): return .settle(state)
        case .retry(let dueAt, let isCounted) where owner == delivery?.inbox:
            // Due since it was created, it keeps its place before those that were created after it.
            return .retry(dueAt: isBusy ? min(now, delivery?.createdAt ?? now) : dueAt, isCounted: isCounted)
        // The token died, or moved or left while the push was under way: it must not reach the next owner.
        case .retry, .dropDevice: return .settle(.gone)
        }
    }

    private func settleBadge(
        _ schedule: inout DeviceSchedule, _ answered: AnsweredPush, _ decision: OutcomePolicy.Decision, now: Timestamp
    ) {
        let push = answered.push
        // The badge changed while this badge push was in flight: the newer one doesn't wait for the older one's retry.
        let isReplanned = push.delivery == nil && schedule.badgeAttempts != push.attempt
        switch decision {
        case .settle(.accepted) where push.inbox != schedule.inbox:
            // It was a former user's, and may be shown after whatever the new one was told: a push that is planned stays so.
            if push.toldCount != nil {
                schedule.toldCount = nil
                schedule.toldAt = nil
            }
        case .settle(.accepted):
            if push.delivery != nil { schedule.showsAlert(acceptedAt: now) } else { schedule.syncedAt = now }
            if let count = push.toldCount {
                settleTold(&schedule, count, sentAt: push.message.sentAt, now: now)
            } else if push.delivery != nil, schedule.toldAt == nil {
                // It shows now, whatever number its app has shown by itself: a 0 may not empty the phone.
                schedule.toldCount = nil
            }
            if let dismissal = push.message.dismissal {
                let reader = reader(of: push, on: schedule.platform)
                schedule.changeDismissals { $0.accepted(dismissal, by: reader) }
            }
            // Attempted before its entry was read, it went again, and shows.
            if let delivery = push.delivery, delivery.isHandled {
                schedule.changeDismissals { $0.owe(delivery.notificationID) }
            }
            // A withdrawal makes the number due at once. The answer doesn't put off what came due while the push was in flight.
            let isDue = schedule.badgeDueAt.map { $0 <= now && (push.delivery != nil || $0 > push.message.sentAt) } ?? false
            if !isDue { schedule.badgeDueAt = nil }
            schedule.badgeAttempts = 0
        case .retry(let dueAt, let isCounted):
            // It may have arrived all the same: what the device shows is not known.
            if push.toldCount != nil { schedule.toldCount = nil }
            guard push.delivery == nil, !isReplanned else { return }
            schedule.badgeDueAt = dueAt
            if !isCounted { schedule.badgeAttempts = max(0, schedule.badgeAttempts - 1) }
        case .settle(let state):
            if state == .rejected, let delivery = push.delivery, !delivery.isEdit {
                schedule.changeDismissals { $0.forget([delivery.notificationID]) }
            }
            // Given up without an answer, it may have arrived.
            if state == .failed, push.toldCount != nil { schedule.toldCount = nil }
            guard push.delivery == nil, !isReplanned else { return }
            schedule.badgeDueAt = nil
            schedule.badgeAttempts = Int64(Limits.deliveryAttempts)
        case .dropDevice: return
        }
    }

    private func settleTold(_ schedule: inout DeviceSchedule, _ count: Int64, sentAt: Timestamp, now: Timestamp) {
        // An answer told the device another number meanwhile, or its app may have changed the icon (`BadgePushes.forgetTold`): nobody
        // knows what came last.
        let isForgotten = schedule.toldCount == nil
        if let toldAt = schedule.toldAt, isForgotten ? toldAt >= sentAt : toldAt > sentAt, schedule.toldCount != count {
            schedule.toldCount = nil
            schedule.toldAt = nil
            return
        }
        if count == 0 { schedule.becomesZero(at: now) }
        schedule.toldCount = count
        schedule.toldAt = now
    }

    /// The code that reads what an accepted push names.
    private func reader(of push: ClaimedPush, on platform: DevicePlatform) -> Dismissals.Reader {
        guard case .alert = push.message.kind else { return platform == .android ? .app : .appIfWoken }
        if platform == .android { return push.message.isDrawnByApp ? .app : .nobody }
        return rules[push.message.app].mutableContent ? .app : .appWithExtension
    }

    /// Plans the next push after the answer: a due alert, which carries the badge itself; else a badge push if the told
    /// number isn't the present badge.
    private func oweNext(
        _ schedule: inout DeviceSchedule, _ decision: OutcomePolicy.Decision, _ device: AnsweredDevice, _ alertDueAt: Timestamp?,
        now: Timestamp
    ) {
        let isAlertDue = alertDueAt.map { $0 <= now } ?? false
        // A due alert may be left of another user's, and doesn't go. Or it is the refused one itself, which an edit made due again.
        var isRefused = false
        if case .settle(let state) = decision { isRefused = state != .accepted }
        if !isAlertDue || device.isLeft || isRefused {
            var notBefore: Timestamp?
            if case .retry(let at, _) = decision { notBefore = at }
            badgePushes.owe(&schedule, device.inbox.badge, notBefore: notBefore, now: now)
        } else if let badgeDueAt = schedule.badgeDueAt, let alertDueAt {
            // The alert goes first, and brings the number: the device isn't free for another one (`DeviceSchedule.isFree`).
            schedule.badgeDueAt = max(badgeDueAt, Timestamp(milliseconds: alertDueAt.milliseconds + 1))
        }
        schedule.look(at: [schedule.badgeDueAt, alertDueAt].compactMap(\.self).min())
    }

    /// One answer as JSON, for the producer's query; nil for the usual one, which the state shows.
    private static func text(_ answered: AnsweredPush) -> String? {
        let answer = answered.answer
        if answer.outcome == .accepted, answered.push.attempt == 1, answer.status == 200, answer.reason == nil { return nil }
        return String(decoding: json(answer, at: answered.at).text, as: UTF8.self)
    }

    /// The answer to most pushes, which isn't written out while it is the only one.
    static func usualAnswer(at: Timestamp) -> JSONValue {
        json(PushAnswer(outcome: .accepted, status: 200, reason: nil), at: at)
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
