import CampanileCore
import FoundationEssentials
import Push

// The settings of each section. Only this file names them.

extension Configuration.JWT {
    init(_ section: ConfigurationSection) {
        self.init()
        let secret = section.value("secret", .secret(minimumBytes: ConfigurationLimits.keyBytes))
        let jwksFile = section.value("jwks_file", .text)
        section.refuseBoth(secret, "secret", jwksFile, "jwks_file")
        section.readFile(jwksFile, "jwks_file") { isJSONObject($0, with: ["keys"]) ? nil : "is not a JWK set" }
        self.secret = secret?.value
        self.jwksFile = jwksFile?.value
        issuer = section.value("issuer", .text)?.value
        audience = section.value("audience", .text)?.value
        section.close()
    }
}

extension Configuration.Badge {
    init(_ section: ConfigurationSection) {
        self.init()
        section.value("policy", .word(BadgePolicy.self)).map { policy = $0.value }
        section.value("sync_on_read", .boolean).map { syncOnRead = $0.value }
        section.value("content_available", .word(ContentAvailable.self)).map { contentAvailable = $0.value }
        section.value("android_data", .boolean).map { androidData = $0.value }
        section.value("never_zero_while_others_remain", .boolean).map { neverZeroWhileOthersRemain = $0.value }
        section.value("clear_on_native_list", .boolean).map { clearOnNativeList = $0.value }
        section.close()
    }
}

extension Configuration.App {
    /// The apps of the file, and `default` if the environment has settings for it.
    static func all(in root: ConfigurationSection) -> [String: Configuration.App] {
        var apps: [String: Configuration.App] = [:]
        var names: [String: String] = [:]
        var entries = root.entries("apps")
        let isDefaultNamed = entries.contains { environmentName([$0.key]) == environmentName([AppName.standard]) }
        if !isDefaultNamed {
            // Read in any case, so that "did you mean" finds its variables.
            let section = ConfigurationSection(
                reader: root.reader, path: ["apps", AppName.standard], entries: [], origin: nil, takesEnvironment: true)
            let app = Configuration.App(section)
            if app != Configuration.App() { apps[AppName.standard] = app }
        }
        entries.removeAll { !root.check($0, .appName, named: "the name of an app") }
        for entry in entries {
            if let other = names.updateValue(entry.key, forKey: environmentName([entry.key])) {
                root.reader.report(
                    entry.origin, "the apps \(other) and \(entry.key) have the same name in environment variables")
            }
            apps[entry.key] = Configuration.App(root.section(entry, under: "apps", takesEnvironment: true))
        }
        return apps
    }

    private init(_ section: ConfigurationSection) {
        let apns = section.section("apns")
        let mutableContent = apns.value("mutable_content", .boolean)
        self.init(
            apns: Configuration.APNs(apns, mayBeMissing: mutableContent != nil),
            fcm: Configuration.FCM(section.section("fcm")))
        self.mutableContent = mutableContent?.value ?? false
        deepLinks = DeepLinkTree(section)
        categories = NotificationCategory.all(in: section)
        categoriesOnly = section.value("categories_only", .boolean)?.value
        if section.isWritten("path_configuration") {
            pathConfiguration = Configuration.PathConfiguration(section.section("path_configuration"))
        }
        let badge = section.section("badge")
        badgePolicy = badge.value("policy", .word(BadgePolicy.self))?.value
        badge.close()
        let cable = section.section("cable")
        self.cable = Configuration.CableKeys(cable)
        cable.close()
        section.close()
    }
}

extension Configuration.APNs {
    /// Nil if nobody wrote any setting of it, or one is missing.
    /// - Parameter mayBeMissing: whether the section is right without any credential.
    fileprivate init?(_ section: ConfigurationSection, mayBeMissing: Bool) {
        let keyFile = section.value("key_file", .text, isRequired: true)
        let keyID = section.value("key_id", .identifier, isRequired: true)
        let teamID = section.value("team_id", .identifier, isRequired: true)
        let topic = section.value("topic", .identifier, isRequired: true)
        let url = section.value("url", .endpoint)
        let isAlone = mayBeMissing && [keyFile, keyID, teamID, topic].allSatisfy { $0 == nil } && url == nil
        section.close(needsAll: !isAlone)
        section.readFile(keyFile, "key_file") {
            contains($0, "-----BEGIN PRIVATE KEY-----") ? nil : "is not a private key from Apple (PEM, PKCS #8)"
        }
        guard let keyFile, let keyID, let teamID, let topic else { return nil }
        self.init(
            keyFile: keyFile.value, keyID: keyID.value, teamID: teamID.value, topic: topic.value, url: url?.value)
    }
}

extension Configuration.FCM {
    /// Nil if nobody wrote any setting of it, or one is missing.
    fileprivate init?(_ section: ConfigurationSection) {
        let file = section.value("service_account_file", .text, isRequired: true)
        let url = section.value("url", .endpoint)
        section.close()
        section.readFile(file, "service_account_file") {
            isJSONObject($0, with: ["project_id", "client_email", "private_key"])
                ? nil : "is not the JSON of a Google service account"
        }
        guard let file else { return nil }
        self.init(serviceAccountFile: file.value, url: url?.value)
    }
}

extension Configuration.Push {
    init(_ section: ConfigurationSection, _ flags: Configuration.Flags) {
        self.init()
        let file = section.value("ca_file", .text, flag: .flag("--push-ca", flags.pushCA))
        section.readFile(file, "ca_file") {
            contains($0, "-----BEGIN CERTIFICATE-----") ? nil : "holds no certificate in PEM"
        }
        caFile = file?.value
        section.value("unanswered", .word(Configuration.Push.Unanswered.self)).map { unanswered = $0.value }
        section.value("dead_token_percent", .wholeNumber(1...100)).map { deadTokenPercent = $0.value }
        section.close()
    }
}

extension Configuration.Streams {
    init(_ section: ConfigurationSection) {
        self.init()
        cookie = section.value("cookie", .cookieName)?.value
        section.value("per_user", .wholeNumber(1...1_000_000)).map { perUser = $0.value }
        section.value("total", .wholeNumber(1...1_000_000)).map { total = $0.value }
        section.close()
    }
}

extension Configuration.CableKeys {
    init(_ section: ConfigurationSection) {
        self.init()
        let key = section.value("signed_stream_key", .secret(minimumBytes: ConfigurationLimits.keyBytes))
        let base = section.value("secret_key_base", .secret(minimumBytes: ConfigurationLimits.keyBytes))
        section.refuseBoth(key, "signed_stream_key", base, "secret_key_base")
        signedStreamKey = key?.value
        secretKeyBase = base?.value
        let secret = section.value("anycable_secret", .secret(minimumBytes: ConfigurationLimits.tokenBytes))
        anyCableSecret = secret?.value
        (streamOrigin, secretOrigin) = (key?.origin ?? base?.origin, secret?.origin)
    }
}

extension BroadcastKeeping {
    init(_ section: ConfigurationSection) {
        self.init()
        section.value("keep", .duration(atLeast: ConfigurationLimits.leastBroadcastMilliseconds)).map { milliseconds = $0.value }
        section.value("per_stream", .wholeNumber(1...1_000)).map { perStream = $0.value }
        section.value("bytes", .size(atLeast: ConfigurationLimits.leastBroadcastBytes)).map { bytes = $0.value }
        section.close()
    }
}

extension Configuration.Cable {
    /// - Parameter apps: may have keys of their own.
    init(_ section: ConfigurationSection, _ apps: [String: Configuration.App]) {
        self.init()
        keys = Configuration.CableKeys(section)
        section.value("stream_name", .streamName).map { streamName = $0.value }
        let signedOnly = section.value("signed_streams_only", .boolean)
        signedOnly.map { signedStreamsOnly = $0.value }
        if let signedOnly, signedOnly.value, !keys.signsStreams, !apps.values.contains(where: \.cable.signsStreams) {
            section.reader.reportMissing(
                signedOnly.origin,
                "cable.signed_streams_only has no effect without cable.signed_stream_key or cable.secret_key_base")
        }
        section.close()
    }
}

extension NotificationCategory {
    /// Nil if none is set.
    static func all(in parent: ConfigurationSection) -> [ExactText: NotificationCategory]? {
        var categories: [ExactText: NotificationCategory] = [:]
        for (name, section) in parent.namedSections("categories", .categoryName, called: "a category") {
            let android = section.section("android")
            let own = fields(["interruption_level", "relevance_score", "priority", "buttons"], in: section, "")
            let ofAndroid = fields(["channel_id", "color", "icon", "visibility", "display"], in: android, "android.")
            categories[ExactText(name)] = NotificationCategory(
                sound: section.value("sound", .sound)?.value,
                lifetimeSeconds: section.value("ttl", .lifetime)?.value,
                dismiss: section.value("dismiss", .word(NotificationCategory.Dismissal.self))?.value ?? .nothing,
                fields: PayloadFields(own + (ofAndroid.isEmpty ? [] : [.init("android", .object(ofAndroid))])))
            android.close()
            section.close()
        }
        return parent.isWritten("categories") ? categories : nil
    }

    private static func fields(
        _ names: [String], in section: ConfigurationSection, _ prefix: String
    ) -> [JSONValue.Member] {
        names.compactMap { name in
            section.value(name, .payloadField(prefix + name)).map { JSONValue.Member(name, $0.value) }
        }
    }
}

extension Configuration.Metrics {
    init(_ section: ConfigurationSection, mainPort: Int) {
        self.init()
        token = section.value("token", .bearerToken)?.value
        let port = section.value("port", .port)
        if let port, port.value != 0, port.value == mainPort {
            section.reader.report(port.origin, "metrics.port must differ from port, and both are \(mainPort)")
        }
        self.port = port?.value
        section.close()
    }
}

extension Configuration.Backup {
    init(_ section: ConfigurationSection, isPostgres: Bool) {
        self.init()
        let folder = section.value("directory", .directory)
        directory = folder?.value
        if let folder, isPostgres {
            section.reader.report(
                folder.origin,
                "backup.directory is for a SQLite file; back a PostgreSQL database up with pg_dump, pgBackRest or the provider's "
                    + "snapshots, and remove the setting")
        }
        section.value("every", .duration(atLeast: ConfigurationLimits.backupMilliseconds)).map { everyMilliseconds = $0.value }
        section.value("keep", .wholeNumber(1...10_000)).map { keep = $0.value }
        section.close()
    }
}

extension Configuration.Retention {
    init(_ section: ConfigurationSection) {
        self.init()
        let (hour, day) = (ConfigurationLimits.retentionMilliseconds, ConfigurationLimits.deviceRetentionMilliseconds)
        section.value("notifications", .never(or: .duration(atLeast: hour))).map { notificationsMilliseconds = $0.value }
        section.value("per_inbox", .never(or: .wholeNumber(1...10_000_000))).map { perInbox = $0.value }
        section.value("deliveries", .duration(atLeast: hour)).map { deliveriesMilliseconds = $0.value }
        section.value("device_tokens", .never(or: .duration(atLeast: day))).map { deviceTokensMilliseconds = $0.value }
        section.value("outbox_keys", .duration(atLeast: Limits.idempotencyKeyMilliseconds)).map {
            outboxKeysMilliseconds = $0.value
        }
        section.close()
    }
}

extension SettingType where Value == String {
    fileprivate static var appName: Self {
        refined { name in
            let rule = "must be at most \(Limits.appNameBytes) letters, digits and . _ -"
            return AppName.isValid(name) ? nil : "\(rule), and is \(quotedForMessage(name))"
        }
    }

    /// A token of RFC 9110 section 5.6.2, as RFC 6265 requires for a cookie's name.
    fileprivate static var cookieName: Self {
        refined { name in
            let marks = "!#$%&'*+-.^_`|~"
            let isToken =
                !name.isEmpty && name.utf8.count <= Limits.cookieNameBytes
                && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || marks.contains($0)) }
            return isToken ? nil : "must be the name of a cookie, and is \(quotedForMessage(name))"
        }
    }

    fileprivate static var sound: Self {
        refined { $0.utf8.count <= Limits.soundBytes ? nil : "must be at most \(Limits.soundBytes) bytes long" }
    }

    fileprivate static var categoryName: Self {
        refined { name in
            let limit = Limits.categoryBytes
            return name.utf8.count <= limit ? nil : "must be at most \(limit) bytes, and is \(quotedForMessage(name))"
        }
    }
}

extension ConfigurationSection {
    /// Reports two settings that exclude each other.
    fileprivate func refuseBoth<First, Second>(
        _ first: FoundSetting<First>?, _ firstKey: String, _ second: FoundSetting<Second>?, _ secondKey: String
    ) {
        guard let first, let second else { return }
        reader.report(
            second.origin,
            "\(name(firstKey)) (\(first.origin)) and \(name(secondKey)) can't both be set; remove one of them")
    }

    /// Reads the file that a setting names, to find a wrong path at start instead of at the first push.
    fileprivate func readFile(_ path: FoundSetting<String>?, _ key: String, complaint: (Data) -> String?) {
        guard let path else { return }
        let wrong: String?
        do {
            wrong = complaint(try readNamedFile(path.value, maximumBytes: ConfigurationLimits.namedFileBytes))
        } catch {
            wrong = error.sentence
        }
        guard let wrong else { return }
        reader.report(path.origin, "\(name(key)) names \(quotedForMessage(path: path.value)), which \(wrong)")
    }
}

private func contains(_ data: Data, _ text: String) -> Bool {
    data.contains(text.utf8)
}

/// Returns whether this is a JSON object (RFC 8259) that has all of these members.
private func isJSONObject(_ data: Data, with members: [String]) -> Bool {
    guard let object = try? JSONValue(parsing: Array(data)) else { return false }
    return members.allSatisfy { object[$0] != nil }
}
