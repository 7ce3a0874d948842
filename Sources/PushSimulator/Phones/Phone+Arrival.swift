import CampanileCore

/// The arrival of a push at the phone, and the app's part in it.
extension Phone {
    static let hour: Int64 = 3_600_000

    /// - Parameter historyLimit: the most pushes in the history.
    mutating func apply(_ push: PhonePush, now: Int64, historyLimit: Int, rules: PhoneRules) {
        if platform == .android {
            guard !isStopped else {
                dropped += 1
                return
            }
            guard !isAsleep || push.wakesFromSleep(isDemoted: isDemoted) else { return keep(push, rules) }
        }
        received += 1
        if let dismissal = push.dismissal, push.alert == nil, push.wakesApp,
            !notifications.contains(where: { dismissal.covers($0.alert.id) })
        {
            idleDismissals += 1
        }
        let seen = reads(push, now: now, rules)
        if seen, let dismissal = push.dismissal { take(dismissal) }
        show(push, isSeenByApp: seen, now: now)
        count(push)
        if let version = push.badgeVersion { badgeVersion = max(badgeVersion ?? version, version) }
        history.append(
            Applied(pushID: push.id, kind: push.kind, badge: push.badge, badgeVersion: push.badgeVersion, at: now))
        if history.count > historyLimit { history.removeFirst(history.count - historyLimit) }
    }

    /// Returns whether code of the app's sees a push: the app, or its notification service extension.
    private mutating func reads(_ push: PhonePush, now: Int64, _ rules: PhoneRules) -> Bool {
        let isWoken = push.wakesApp && wake(now: now, rules)
        guard platform == .ios else { return isInForeground || push.wakesApp }
        return isWoken || (push.isMutable && hasExtension) || (isInForeground && push.alert != nil)
    }

    /// Wakes the app for a push, if its system does.
    private mutating func wake(now: Int64, _ rules: PhoneRules) -> Bool {
        if platform == .ios, !isInForeground {
            guard !isStopped else { return false }
            if let budget = rules.backgroundBudget {
                wakeTimes.removeAll { $0 <= now - Phone.hour }
                guard wakeTimes.count < budget else { return false }
                wakeTimes.append(now)
            }
        }
        wakes += 1
        return true
    }

    /// Takes away what was handled elsewhere, as the app's library does.
    private mutating func take(_ dismissal: PhoneDismissal) {
        handled.add(dismissal)
        notifications.removeAll { handled.contains($0.alert.id) }
    }

    private mutating func show(_ push: PhonePush, isSeenByApp: Bool, now: Int64) {
        guard var alert = push.alert else { return }
        if isSeenByApp, handled.contains(alert.id) {
            // An extension can't swallow its own alert: it makes it passive.
            guard platform == .ios, !isInForeground else {
                if push.isHighPriority { isDemoted = true }
                return
            }
            alert.interruptionLevel = "passive"
        }
        let replaced = platform == .android ? push.tag : push.collapseID
        if let replaced { notifications.removeAll { $0.collapseID == replaced } }
        notifications.append(Notification(pushID: push.id, collapseID: replaced, alert: alert, shownAt: now))
        if notifications.count > SimulatorLimits.notifications { notifications.removeFirst() }
    }

    private mutating func count(_ push: PhonePush) {
        let isOlder = push.badgeVersion.flatMap { version in badgeVersion.map { version < $0 } } ?? false
        // The service extension puts the newest number in the place of an older one, so the icon stays as it is.
        if let number = isOlder && push.isMutable && hasExtension ? nil : push.badge {
            badge = number
            if isOlder { olderBadges += 1 }
            // iOS removes its notifications with the number; an Android app that draws its own does the same.
            if number == 0 { notifications.removeAll() }
        } else if platform == .android, push.alert != nil || push.dismissal != nil {
            // Most launchers count for themselves.
            badge = Int64(notifications.count)
        }
    }

    // MARK: - By hand

    /// The app has come to the foreground, asked the server, and removes what is handled.
    /// - Parameter number: the badge of the same answer.
    mutating func reconcile(handled ids: [String], number: Int64, version: Int64) {
        notifications.removeAll { notification in notification.alert.id.map { ids.contains($0.description) } ?? false }
        guard version >= badgeVersion ?? version else { return }
        badgeVersion = version
        if platform == .ios {
            badge = number
            if number == 0 { notifications.removeAll() }
        } else {
            badge = Int64(notifications.count)
        }
    }
}
