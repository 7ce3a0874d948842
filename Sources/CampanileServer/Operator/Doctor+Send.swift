package import CampanileCore
import Push
import SQLEngine

/// `campanile doctor --send` and `--user`: one alert and one badge push to one device, through its real provider. The alert shows one more
/// than the inbox' number, and the badge push sets the number back.
extension Doctor {
    /// The device that the command line names.
    package struct Addressee: Sendable {
        package enum Name: Sendable {
            /// A token, or an installation ID, which needn't be registered.
            case token(String)
            /// Takes the user's latest registered device of those that the other properties allow.
            case user(String)
        }

        let name: Name
        let app: String
        let platform: DevicePlatform?
        let environment: DeviceEnvironment?
        let kind: DeviceTokenKind?

        /// - Parameters:
        ///   - platform, environment, kind: nil takes what is registered, or for an unknown token what it looks like.
        package init(
            _ name: Name, app: String, platform: DevicePlatform?, environment: DeviceEnvironment?, kind: DeviceTokenKind?
        ) {
            self.name = name
            self.app = app
            self.platform = platform
            self.environment = environment
            self.kind = kind
        }
    }

    /// The device and what is known of it.
    struct Subject: Sendable {
        let app: String
        let device: PushDevice
        /// Nil for a device that isn't registered.
        var registered: Device?
        var userID = "doctor"
        var badge = Badge(count: 0, unreadCount: 0, version: 0, updatedAt: nil)
    }

    /// - Parameters:
    ///   - tell: called with each step as it ends.
    ///   - look: waits while somebody looks at the phone.
    /// - Throws: `OperatorError` when there is no such device, or the database can't be used.
    package func send(
        to addressee: Addressee, tell: (Finding) -> Void, look: (_ number: Int64) async -> Void
    ) async throws {
        try OperatorCommands.check(addressee.app)
        let database = try openExisting()
        defer { database?.close() }
        let subject = try subject(addressee, in: database)
        tell(Finding(subject: "device", isGood: true, sentence: subject.sentence))
        let providers = try providers(database.map { $0 as any ProviderTokenStore } ?? NoProviderTokenStore())
        do {
            if await tellCredentials(subject, providers, tell) { try await send(subject, providers, database, tell, look) }
        } catch {
            await providers.shutDown()
            throw error
        }
        await providers.shutDown()
    }

    /// Nil when there is no database yet.
    func openExisting() throws -> Store? {
        let isFile = !DatabaseAddress.isPostgres(configuration.database)
        guard !isFile || Store.exists(configuration.database) else { return nil }
        try Store.requireExisting(configuration.database)
        return try Store.explaining(DatabaseAddress.describe(configuration.database)) {
            try Store.openBeside(configuration.database, world: world).0
        }
    }

    func subject(_ addressee: Addressee, in database: Store?) throws -> Subject {
        switch addressee.name {
        case .user(let userID):
            guard let found = try database?.readBlocking({ try registered(of: userID, addressee, in: $0) }) else {
                throw OperatorError(
                    "\(userID) has no such device in the app \(addressee.app): the app registers it with POST /device_tokens.")
            }
            return found
        case .token(let token):
            let isAPNs =
                addressee.platform != .android && addressee.kind != .fid && token.utf8.allSatisfy { Hex.value($0) != nil }
            let platform = addressee.platform ?? (isAPNs ? .ios : .android)
            let provider: DeviceProvider = isAPNs ? .apns : .fcm
            guard !token.isEmpty, token.utf8.count <= Limits.androidTokenBytes.upperBound else {
                throw OperatorError("The token must be 1 to \(Limits.androidTokenBytes.upperBound) bytes long.")
            }
            let named = PushDevice(
                token: DeviceToken.normalized(token, provider: provider),
                kind: addressee.kind ?? (!isAPNs && Self.looksLikeID(token) ? .fid : .token), platform: platform,
                provider: provider, environment: addressee.environment ?? .production)
            let known = try database?.readBlocking { try registered(named, addressee, in: $0) }
            return known ?? Subject(app: addressee.app, device: named)
        }
    }

    /// Firebase's IDs have 22 characters, and its tokens more and a colon.
    private static func looksLikeID(_ token: String) -> Bool {
        token.utf8.count == 22 && token.utf8.allSatisfy(Base64URL.isDigit)
    }

    private func registered(of userID: String, _ addressee: Addressee, in reading: StoreReading) throws -> Subject? {
        guard let inbox = try reading.inboxes.id(app: addressee.app, userID: userID) else { return nil }
        let device = try reading.deviceTokens.devices(inbox: inbox).filter { device in
            (addressee.platform ?? device.target.platform) == device.target.platform
                && (addressee.environment ?? device.target.environment) == device.target.environment
                && (addressee.kind ?? device.target.kind) == device.target.kind
        }.max { $0.schedule.lastRegisteredAt < $1.schedule.lastRegisteredAt }
        return try device.map { try subject($0, sentAs: $0.target, userID: userID, addressee.app, in: reading) }
    }

    /// Nil when the device isn't registered.
    private func registered(_ named: PushDevice, _ addressee: Addressee, in reading: StoreReading) throws -> Subject? {
        let asked = DeviceToken(
            token: named.token, kind: named.kind, platform: named.platform, provider: named.provider,
            environment: named.environment, appVersion: nil, locale: nil, lastRegisteredAt: world.now())
        let known = try reading.deviceTokens.installation(app: addressee.app, asked).first { $0.target.token == named.token }
        guard let known, let owner = try reading.inboxes.owner(known.schedule.inbox) else { return nil }
        guard (addressee.platform ?? known.target.platform) == known.target.platform,
            (addressee.kind ?? known.target.kind) == known.target.kind
        else {
            throw OperatorError(
                "The device is registered as \(known.target.platform.rawValue) with the kind \(known.target.kind.rawValue): leave "
                    + "--platform and --kind out.")
        }
        let target = PushDevice(
            token: named.token, kind: known.target.kind, platform: known.target.platform, provider: known.target.provider,
            environment: addressee.environment ?? known.target.environment)
        return try subject(known, sentAs: target, userID: owner.userID, addressee.app, in: reading)
    }

    private func subject(
        _ device: Device, sentAs target: PushDevice, userID: String, _ app: String, in reading: StoreReading
    ) throws -> Subject {
        let badge = try reading.inboxes.state(device.schedule.inbox).badge
        return Subject(app: app, device: target, registered: device, userID: userID, badge: badge)
    }

    // MARK: - Sending

    /// - Returns: whether there is anything to send with.
    private func tellCredentials(_ subject: Subject, _ providers: PushProviders, _ tell: (Finding) -> Void) async -> Bool {
        let provider = subject.device.provider
        guard !providers.isSandbox(app: subject.app, kind: provider) else {
            tell(
                Finding(
                    subject: "credentials", isGood: false,
                    sentence:
                        "The app \(subject.app) has none for \(provider.name): its pushes go to the sandbox, and no phone gets "
                        + "them. Set apps.\(subject.app).\(provider.rawValue)."))
            return false
        }
        for finding in await providers.check(app: subject.app, only: provider) {
            tell(Finding(subject: finding.subject, isGood: finding.isGood, sentence: finding.sentence))
        }
        let app = configuration.apps[subject.app]
        let sentence =
            switch provider {
            case .apns: "Topic \(app?.apns?.topic ?? ""), environment \(subject.device.environment.rawValue)."
            case .fcm: "The message goes to \(subject.device.kind == .fid ? "an installation ID" : "a registration token")."
            }
        tell(Finding(subject: "address", isGood: true, sentence: sentence))
        return true
    }

    private func send(
        _ subject: Subject, _ providers: PushProviders, _ database: Store?, _ tell: (Finding) -> Void,
        _ look: (Int64) async -> Void
    ) async throws {
        let provider = providers.provider(app: subject.app, kind: subject.device.provider)
        let number = subject.badge.count + 1
        // From here on nobody knows what it shows, whatever comes: the server tells it, if this ends midway.
        try await oweBadge(to: subject, in: database)
        let alert = await provider.send(message(subject, count: number, isAlert: true))
        let topic = configuration.apps[subject.app]?.apns?.topic
        tell(alert.finding("alert", subject.device, topic: topic, app: subject.app))
        guard alert.mayHaveArrived else { return }
        let verb = alert.isAccepted ? "should" : "may"
        tell(Finding(subject: "icon", isGood: true, sentence: "It \(verb) show \(number) now.\(subject.launcherNote)"))
        guard subject.device.platform == .ios || configuration.badge.androidData else {
            tell(
                Finding(
                    subject: "badge", isGood: true,
                    sentence: "None is sent to Android, because badge.android_data is off: the launcher counts what is shown."))
            return
        }
        await look(number)
        // Something may have come or been read meanwhile.
        let subject = try refreshed(subject, in: database)
        let count = numberAfterwards(subject)
        let badge = await provider.send(message(subject, count: count, isAlert: false))
        // A push of the server's may have crossed this one.
        try await oweBadge(to: subject, in: database)
        tell(badge.finding("badge", subject.device, topic: topic, app: subject.app))
        guard badge.mayHaveArrived else { return }
        let ending = "It \(badge.isAccepted ? "should" : "may") show \(count == 0 ? "no number now" : "\(count) again")"
        tell(Finding(subject: "icon", isGood: true, sentence: "\(ending), \(reason(subject))."))
    }

    /// The reason for `numberAfterwards`.
    private func reason(_ subject: Subject) -> String {
        guard subject.registered != nil else { return "since nobody here knows its user's number" }
        guard badgePushes.isKeptBack(subject.badge) else { return "its user's number" }
        return "because badge.never_zero_while_others_remain keeps a 0 back while something is unread"
    }

    /// The number that takes the test's place: the user's, or while the settings keep a 0 back the one that stood there before.
    private func numberAfterwards(_ subject: Subject) -> Int64 {
        guard badgePushes.isKeptBack(subject.badge) else { return subject.badge.count }
        let schedule = subject.registered?.schedule
        let before = schedule?.toldAt.flatMap { _ in schedule?.toldCount } ?? 0
        return before > 0 ? before : subject.badge.unreadCount
    }

    private func message(_ subject: Subject, count: Int64, isAlert: Bool) -> PushMessage {
        let now = world.now()
        // No notification has it: it only names the push.
        let id = UUIDv7.imported(now, number: 0, random: world.random())
        let alert = PushAlert(
            notificationID: id, title: "Campanile", body: "A test: the icon should show \(count).", category: nil, deepLink: nil,
            data: nil, sound: nil, collapseKey: "campanile-doctor", threadID: nil,
            expiresAt: Timestamp(milliseconds: now.milliseconds + Limits.testPushMilliseconds))
        let badge = Badge(
            count: count, unreadCount: count, version: subject.badge.version, updatedAt: subject.badge.updatedAt)
        return PushMessage(
            id: id, kind: isAlert ? .alert(alert) : .badge, app: subject.app, userID: subject.userID, device: subject.device,
            badge: badge, sentAt: now)
    }

    private var badgePushes: BadgePushes { BadgePushes(configuration) }

    private func refreshed(_ subject: Subject, in database: Store?) throws -> Subject {
        guard let inbox = subject.registered?.schedule.inbox else { return subject }
        var subject = subject
        let state = try database?.readBlocking { try $0.inboxes.state(inbox) }
        subject.badge = state?.badge ?? subject.badge
        return subject
    }

    /// Forgets what a registered device was told, so that a server tells it its number in a few minutes, or with the next event.
    private func oweBadge(to subject: Subject, in database: Store?) async throws {
        guard let id = subject.registered?.schedule.id else { return }
        try await database?.write { [badgePushes, badge = subject.badge] transaction in
            guard var schedule = try transaction.deviceTokens.device(id)?.schedule else { return }
            schedule.toldCount = nil
            schedule.toldAt = nil
            schedule.attempted = true
            if badgePushes.owes(schedule, badge, now: transaction.now), !schedule.isInFlight {
                let dueAt = Timestamp(milliseconds: transaction.now.milliseconds + Limits.testPushMilliseconds)
                schedule.badgeAttempts = 0
                schedule.badgeDueAt = schedule.badgeDueAt.map { min($0, dueAt) } ?? dueAt
                schedule.look(at: schedule.dueAt.map { min($0, dueAt) } ?? dueAt)
            }
            try transaction.deviceTokens.store(schedule)
        }
    }
}

extension Doctor.Subject {
    var sentence: String {
        let kind = device.kind == .fid ? "an installation ID" : "a token"
        let place = device.provider == .apns ? "\(device.provider.name) (\(device.environment.rawValue))" : device.provider.name
        let head = "\(DeviceToken.hint(device.token)), \(kind) of \(device.platform.rawValue) at \(place)"
        guard let registered else { return "\(head). It isn't registered in the app \(app)." }
        let version = registered.appVersion.map { ", app version \(quotedForMessage($0))" } ?? ""
        return "\(head), registered at \(registered.schedule.lastRegisteredAt)\(version). Its user's badge is \(badge.count)."
    }

    fileprivate var launcherNote: String {
        device.platform == .android ? " (Many launchers show a dot, or count by themselves.)" : ""
    }
}

extension PushProvider {
    fileprivate func send(_ message: PushMessage) async -> PushAnswer {
        await withCheckedContinuation { continuation in send(message) { continuation.resume(returning: $0) } }
    }
}
