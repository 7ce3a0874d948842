import CampanileCore
import Push
import SQLEngine

/// `campanile doctor --report`: what the server knows of a device, for docs/real-phones.md or a bug report. It names no user, no app and no
/// notification's words, and of the token only the end.
extension Doctor {
    /// - Returns: the lines of a table in Markdown.
    /// - Throws: `OperatorError` when the database can't be used, or a user has no such device.
    package func report(on addressee: Addressee) throws -> [String] {
        let database = try openExisting()
        defer { database?.close() }
        let subject = try subject(addressee, in: database)
        guard let database, let device = subject.registered else {
            return table([("program", OperatorCommands.version), ("device", "not registered: the server knows nothing of it")])
        }
        let inbox = device.schedule.inbox
        let (others, pushes) = try database.readBlocking { reading in
            (try reading.deviceTokens.list(inbox: inbox), try latestPushes(to: device.target.token, inbox, in: reading))
        }
        var rows = [("program", OperatorCommands.version), ("database", isFile ? "SQLite" : "PostgreSQL")]
        rows += settings(subject) + facts(device, subject.badge)
        rows.append(
            (
                "devices of the user",
                "\(others.count): " + others.map { "\($0.platform) by \($0.provider)" }.joined(separator: ", ")
            ))
        rows += pushes.enumerated().map { ("push \($0 + 1), newest first", $1) }
        return table(rows)
    }

    private func table(_ rows: [(String, String)]) -> [String] {
        ["| what | value |", "|---|---|"] + rows.map { "| \($0) | \($1.replacing("|", with: "\\|")) |" }
    }

    private var isFile: Bool { !DatabaseAddress.isPostgres(configuration.database) }

    private func settings(_ subject: Subject) -> [(String, String)] {
        let badge = configuration.badge
        let app = configuration.apps[subject.app]
        let hasCredentials = subject.device.provider == .apns ? app?.apns != nil : app?.fcm != nil
        return [
            ("badge.policy", configuration.badgePolicies[subject.app].rawValue), ("badge.sync_on_read", "\(badge.syncOnRead)"),
            ("badge.content_available", badge.contentAvailable.rawValue), ("badge.android_data", "\(badge.androidData)"),
            ("badge.never_zero_while_others_remain", "\(badge.neverZeroWhileOthersRemain)"),
            ("apns.mutable_content", "\(app?.mutableContent ?? false)"), ("has credentials", "\(hasCredentials)"),
        ]
    }

    private func facts(_ device: Device, _ badge: Badge) -> [(String, String)] {
        let (target, schedule) = (device.target, device.schedule)
        let told = schedule.toldAt.flatMap { at in schedule.toldCount.map { "\($0) at \(at)" } }
        return [
            ("device", DeviceToken.hint(target.token)), ("platform", target.platform.rawValue),
            ("provider", target.provider.rawValue), ("kind", target.kind.rawValue), ("environment", target.environment.rawValue),
            ("app version", device.appVersion.map(quotedForMessage) ?? "not told"),
            ("registered", schedule.lastRegisteredAt.description),
            ("seen", device.seenAt.description), ("number it was told", told ?? "unknown"),
            ("in flight", "\(schedule.isInFlight)"), ("next push", schedule.dueAt?.description ?? "none"),
            ("badge", "\(badge.count), of \(badge.unreadCount) unread, version \(badge.version)"),
        ]
    }

    /// The pushes to a device of the newest notifications, each with the provider's answers.
    private func latestPushes(to token: String, _ inbox: InboxID, in reading: StoreReading) throws -> [String] {
        var newest: [UUIDv7] = []
        let page = NotificationFilter(limit: Limits.reportedNotifications)
        _ = try reading.notifications.page(page, inbox: inbox) { newest += UUIDv7(bytes: $0.id).map { [$0] } ?? [] }
        return try newest.flatMap { id in
            try reading.deliveries.list(notification: id).filter { $0.token == token }.map { delivery in
                Explanation.lines(of: delivery).joined(separator: "; ").replacing("  ", with: "")
            }
        }
    }
}
