package import CampanileCore
import FoundationEssentials
package import Logging
import Push
import SQLEngine

/// `campanile doctor`: looks at all that pushes depend on, and at the age of the newest backup, and says in sentences what is
/// wrong. Without `--send` and `--user` it sends nothing to any device and changes nothing but the schema of an older database.
package struct Doctor: Sendable {
    package struct Finding: Sendable {
        package let subject: String
        package let isGood: Bool
        package let sentence: String
    }

    let configuration: Configuration
    let world: World
    let logger: Logger

    package init(_ configuration: Configuration, world: World, logger: Logger) {
        self.configuration = configuration
        self.world = world
        self.logger = logger
    }

    package func examine() async -> [Finding] {
        var findings = [Finding(subject: "configuration", isGood: true, sentence: "It can be read.")] + examineCable()
        let isFile = !DatabaseAddress.isPostgres(configuration.database)
        guard !isFile || Store.exists(configuration.database) else {
            let sentence = "There is none at \(configuration.database): `serve` makes it, or name another with --database."
            findings.append(Finding(subject: "database", isGood: false, sentence: sentence))
            return findings + (await examineProviders(NoProviderTokenStore()))
        }
        do {
            try Store.requireExisting(configuration.database)
            let (database, _) = try Store.openBeside(configuration.database, world: world)
            defer { database.close() }
            findings += try await examine(database)
        } catch {
            let told: any Error =
                (error as? SQLError).map { Store.explained($0, DatabaseAddress.describe(configuration.database)) } ?? error
            findings.append(Finding(subject: "database", isGood: false, sentence: "\(told)"))
            if !isFile, configuration.lacksSecret {
                findings.append(Finding(subject: "user tokens", isGood: false, sentence: Configuration.secretRefusal))
            }
        }
        return findings
    }

    private func examine(_ database: Store) async throws -> [Finding] {
        let audit = try BadgeAudit(database)
        var findings = [
            Finding(
                subject: "database", isGood: audit.isGood,
                sentence: audit.isGood
                    ? "\(DatabaseAddress.describe(configuration.database)) can be used, and every badge equals its recount: \(audit.summary)"
                    : "Not every badge equals its recount: \(audit.summary) See `campanile badge audit`.")
        ]
        for inbox in audit.unreadable {
            findings.append(
                Finding(subject: "database", isGood: false, sentence: "\(inbox.inbox) can't be read: \(inbox.reason)."))
        }
        let devices = try database.survey { try $0.deviceTokens.counts() }.map { count in
            DatabaseStatistics.devices(of: count.lane, kind: count.kind, count: count.count)
        }
        findings.append(
            Finding(
                subject: "devices", isGood: true,
                sentence: devices.isEmpty ? "None is registered." : "Registered: \(devices.joined(separator: ", "))."))
        for (part, condition) in try database.readBlocking({ try $0.laneConditions.all() }) {
            findings.append(
                Finding(
                    subject: "app \(part.lane.app)", isGood: false,
                    sentence: "\(condition.sentence(part)) Since \(condition.since)."))
        }
        findings += try Doctor.examineCluster(database, configuration, world)
        findings += examineBackups()
        return findings + (await examineProviders(database))
    }

    /// Backups that fail stop nothing else, so nobody misses them until one is wanted.
    private func examineBackups() -> [Finding] {
        guard let folder = configuration.backup.directory else { return [] }
        func finding(_ isGood: Bool, _ sentence: String) -> [Finding] {
            [Finding(subject: "backups", isGood: isGood, sentence: sentence)]
        }
        let now = world.now()
        do {
            guard let newest = try BackupSchedule.newest(in: folder, at: now) else {
                return finding(
                    false, "There is none in \(folder): a server makes the first when it starts, and logs why if it can't.")
            }
            let sentence = "The newest in \(folder) was begun at \(newest)"
            guard now.milliseconds - newest.milliseconds <= 2 * configuration.backup.everyMilliseconds else {
                return finding(
                    false,
                    "\(sentence), longer ago than twice backup.every: either no server runs, or its log says why it makes none.")
            }
            return finding(true, "\(sentence).")
        } catch {
            return finding(false, "\(error)")
        }
    }

    /// Signs a name for comparison, because the server can't see whether a Rails application signs with the same key.
    private func examineCable() -> [Finding] {
        let apps = configuration.apps.sorted { $0.key < $1.key }.filter(\.value.cable.signsStreams)
        let own = apps.map { examineCable($0.value.cable, "apps.\($0.key).cable") }
        guard configuration.cable.keys.signsStreams || own.isEmpty else { return own }
        return [examineCable(configuration.cable.keys, "cable")] + own
    }

    private func examineCable(_ keys: Configuration.CableKeys, _ section: String) -> Finding {
        do {
            guard let key = try SignedStreamName.Key(keys, section) else {
                return Finding(
                    subject: section, isGood: true,
                    sentence: "Without cable.signed_stream_key or cable.secret_key_base no signed stream name is accepted.")
            }
            let name = Doctor.nameOfNoStream(try StreamNamePattern(configuration.cable.streamName))
            return Finding(subject: section, isGood: true, sentence: Doctor.comparison(of: name, key))
        } catch {
            return Finding(subject: section, isGood: false, sentence: "\(error)")
        }
    }

    /// Tells how a name is signed, and how Rails is made to say how it signs it.
    static func comparison(of name: String, _ key: SignedStreamName.Key) -> String {
        let signed = SignedStreamName.signatures(of: name, key: key)
        // Ruby reads it, between the shell's quotes.
        let quoted = String(decoding: JSONValue.string(name).text, as: UTF8.self)
        let ruby = quoted.replacing("#", with: "\\#").replacing("'", with: #"'\''"#)
        return """
            With the key of \(key.setting) the name \(quoted) is signed \(signed.joined(separator: ", or before Rails 7.0 ")). \
            To compare, run in the Rails application: \
            bin/rails runner 'puts Turbo::StreamsChannel.signed_stream_name(\(ruby))'. \
            If that prints something else, its pages hear nothing: it signs with another key.
            """
    }

    /// A name that is of no user's stream, so that whoever reads the signed form may not listen to anybody. No user's id holds
    /// a control character.
    private static func nameOfNoStream(_ pattern: StreamNamePattern) -> String {
        let name = "campanile:doctor"
        return pattern.target(of: name) == nil ? name : name + "\u{1}"
    }

    /// The providers of the configuration's apps.
    /// - Throws: `OperatorError` when credentials are wrong.
    func providers(_ tokenStore: any ProviderTokenStore) throws -> PushProviders {
        let options = PayloadOptions(configuration)
        let providers = PushProviders(
            sandbox: SandboxProvider(capacity: 1, options: options), options: options, tokenStore: tokenStore, world: world,
            logger: logger)
        try providers.apply(configuration)
        return providers
    }

    private func examineProviders(_ tokenStore: any ProviderTokenStore) async -> [Finding] {
        let providers: PushProviders
        do { providers = try self.providers(tokenStore) } catch {
            return [Finding(subject: "push credentials", isGood: false, sentence: "\(error)")]
        }
        var findings: [Finding] = []
        let named = configuration.apps.filter { $0.value.apns != nil || $0.value.fcm != nil }.keys.sorted()
        for app in named {
            for finding in await providers.check(app: app) {
                findings.append(
                    Finding(subject: "app \(app), \(finding.subject)", isGood: finding.isGood, sentence: finding.sentence))
            }
        }
        if named.isEmpty {
            findings.append(
                Finding(subject: "push", isGood: true, sentence: "No app has credentials: the sandbox takes all pushes."))
        }
        await providers.shutDown()
        return findings
    }
}
