package import CampanileCore
import CEmbedded
import Logging
package import SQLEngine
import SystemSupport

/// The work of the operator's commands, beside a running server or without one.
package struct OperatorCommands: Sendable {
    /// The migrations that opening the database ran.
    package struct Schema: Sendable {
        package let from: Int32
        package let to: Int32
        /// The file as it was before, if anything was changed.
        package let backupPath: String?
    }

    /// The version, the commit, and the schemas that the program brings a database to.
    package static let version = {
        let revision = String(cString: embedded("revision.txt").text)
        let (file, cluster) = (Migrations.all.last?.version ?? 0, PostgresMigrations.all.last?.version ?? 0)
        return "\(ProgramVersion.current) (commit \(revision), schema \(file), on PostgreSQL \(cluster))"
    }()

    /// The shards that device tokens are dealt to on PostgreSQL.
    package static let shards = Limits.shards

    package let schema: Schema
    let database: Store
    private let hints: ClusterHints?
    private let path: String
    private let badgePushes: BadgePushes
    private let world: World

    /// Opens the configured database and brings its schema up to date.
    /// - Parameter isMade: whether a file that isn't there is made. Who only looks, or takes something away, has mistyped its
    ///   name.
    /// - Parameter copying: of the copy that is made before the schema is changed.
    package init(
        _ configuration: Configuration, isMade: Bool = true, world: World,
        copying: @escaping DatabaseCopy.Progress = { _, _ in }
    ) throws {
        if !isMade { try Store.requireExisting(configuration.database) }
        let (database, report) = try Store.openBeside(configuration.database, world: world, copying: copying)
        self.database = database
        hints = try ClusterHints(database)
        path = DatabaseAddress.describe(configuration.database)
        self.world = world
        badgePushes = BadgePushes(configuration)
        schema = Schema(from: report.from, to: report.to, backupPath: report.backupPath)
    }

    package func close() {
        database.close()
        hints?.close()
    }

    /// The names of the migrations that opening would run.
    package static func pendingMigrations(_ configuration: Configuration) throws -> [String] {
        try Store.pendingMigrations(configuration.database)
    }

    /// The nodes that serve a PostgreSQL database, a line for each; on SQLite a sentence.
    package func nodes() throws -> [String] {
        guard let reports = try database.nodeReports() else {
            return ["\(path) is a SQLite file: one server at a time works on it, and there are no nodes."]
        }
        guard !reports.isEmpty else { return ["No node serves \(path)."] }
        return reports.map(\.line)
    }

    // MARK: Keys

    /// - Returns: the key, which is kept nowhere.
    package func createKey(name: String, app: String, kind: APIKeyKind = .producer) throws -> String {
        guard !name.isEmpty, name.utf8.count <= Limits.apiKeyNameBytes, name.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
        else { throw OperatorError("The name must be 1 to \(Limits.apiKeyNameBytes) bytes without spaces.") }
        try OperatorCommands.check(app)
        let key = APIKey.make(world)
        let hash = APIKey.hash(key.utf8)
        do {
            try database.writeBlocking {
                try $0.apiKeys.insert(name: name, app: app, kind: kind, hash: hash)
            }
        } catch let error as SQLError where error.code == .commitUnknown {
            throw OperatorError(
                "The database's answer was lost, so the key \(name) may have been made; nobody has it, and it isn't shown. Look with "
                    + "`campanile keys list`: if it is there, end it with `campanile keys revoke \(name)`. Then create it again.")
        } catch let error as SQLError where error.code == .constraintUnique {
            throw OperatorError("There is a valid key named \(name) already. Revoke it first, or take another name.")
        }
        return key
    }

    package func keys() throws -> [APIKeyRecord] {
        try database.readBlocking { try $0.apiKeys.list() }
    }

    package func revokeKey(name: String) throws {
        let isRevoked = try OperatorCommands.repeatable { try database.writeBlocking { try $0.apiKeys.revoke(name: name) } }
        guard isRevoked else { throw OperatorError("There is no valid key named \(name).") }
        hints?.credentialsChanged()
    }

    /// Work that may be done twice, when nobody knows whether it was done.
    private static func repeatable<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as SQLError where error.code == .commitUnknown {
            throw OperatorError("The database's answer was lost, so nobody knows whether it was done. Run the command again.")
        }
    }

    package static func check(_ app: String) throws {
        guard AppName.isValid(app) else {
            throw OperatorError("The app must be 1 to \(Limits.appNameBytes) letters, digits, dots, dashes or underscores.")
        }
    }

    // MARK: Users

    /// Ends every token of a user that was issued before now, and the streams that were opened with one. A token issued
    /// in this same second counts as before: `iat` is in whole seconds.
    package func revoke(user: String, app: String) throws {
        try OperatorCommands.check(app)
        if let mistake = UserID.mistake(user) { throw OperatorError("The user's id \(mistake.sentence)") }
        let next = Timestamp(milliseconds: (world.now().milliseconds / 1_000 + 1) * 1_000)
        try OperatorCommands.repeatable {
            try database.writeBlocking { try $0.revocations.revoke(app: app, userID: user, tokensBefore: next) }
        }
        hints?.credentialsChanged()
    }

    // MARK: Notifications and badges

    /// Creates a notification: the same checks and the same transaction as a producer's.
    package func notify(user: String, app: String, title: String, body: String) async throws -> UUIDv7 {
        try OperatorCommands.check(app)
        let fields: [JSONValue.Member] = [
            .init("user_id", .string(user)), .init("title", .string(title)), .init("body", .string(body)),
        ]
        return try await create(fields, app: app, NotificationRules())
    }

    /// Creates a notification from the body of a `POST /notifications` for one user, held to the app's own rules.
    /// - Parameter file: its path; `-` is standard input.
    package func notify(file: String, app: String, _ configuration: Configuration) async throws -> UUIDv7 {
        try OperatorCommands.check(app)
        let json = try File.read(file == "-" ? "/dev/stdin" : file, limit: ConfigurationLimits.fileBytes)
        let value: JSONValue
        do throws(JSONSyntaxError) { value = try JSONValue(parsing: json) } catch {
            throw OperatorError("The file isn't JSON: \(error.description)")
        }
        guard case .object(let fields) = value, value["user_ids"] == nil else {
            throw OperatorError("The file must hold one JSON object, the body of a POST /notifications with user_id.")
        }
        return try await create(fields, app: app, configuration.notificationRules(of: app))
    }

    private func create(_ fields: [JSONValue.Member], app: String, _ rules: NotificationRules) async throws -> UUIDv7 {
        let new: NewNotification
        do {
            new = try NewNotification(from: JSONObject(fields), rules: rules)
        } catch let problem as ClientError {
            throw OperatorError(problem.errors.map(\.message).joined(separator: " "))
        }
        let publisher = Publisher(
            database: database, ids: try database.idGenerator(world: world), badgePushes: badgePushes)
        let id: UUIDv7?
        do {
            id = try await publisher.publish(new, app: app).first?.id
        } catch let error as SQLError where error.code == .commitUnknown {
            throw OperatorError(
                "The database's answer was lost, so the notification may have been created. Look at the user's inbox before you create "
                    + "it again: this command has no Idempotency-Key, so it would be there twice.")
        }
        guard let id else { throw OperatorError("Nothing was created.") }
        hints?.pushesAreDue()
        return id
    }

    /// Explains what became of a notification's pushes.
    package func explain(_ id: String) throws -> [String] {
        guard let id = UUIDv7(id) else { throw OperatorError("\(id) isn't the id of a notification.") }
        guard let explanation = try database.snapshotBlocking({ try Explanation(id, app: nil, in: $0) }) else {
            throw OperatorError("There is no notification \(id), or it is so old that its deliveries were deleted.")
        }
        return explanation.lines
    }

    /// Returns what there is in the database, a line for each kind of thing.
    package func stats() throws -> [String] {
        try DatabaseStatistics(database, path: path, schema: schema.to, now: world.now()).lines
    }

    package func auditBadges(progress: (Int, Int) throws -> Void) throws -> BadgeAudit {
        try Store.explaining(path) { try BadgeAudit(database, progress: progress) }
    }
}

extension NodeReport {
    /// For people and for `cut`: tabs between the fields.
    fileprivate var line: String {
        let words = [
            node.name, node.address, node.version, "since \(startedAt)", "seen \(seenAt)",
            "\(shards) shard\(shards == 1 ? "" : "s")",
        ]
        let silence = "silent for \(silentMilliseconds / 1_000) s"
        return (isAlive ? words : words + [silence]).joined(separator: "\t")
    }
}

extension Configuration {
    /// The name of a stream with its signature, as turbo-rails writes it; nil without a key to sign with.
    package func signStreamName(_ name: String, app: String) throws -> String? {
        try streamKey(of: app).map { SignedStreamName.sign(name, key: $0) }
    }

    /// Returns the key that an app signs its streams' names with; nil: none is configured.
    func streamKey(of app: String) throws -> SignedStreamName.Key? {
        let own = try apps[app].flatMap { try SignedStreamName.Key($0.cable, "apps.\(app).cable") }
        return try own ?? (app == AppName.standard ? SignedStreamName.Key(cable.keys, "cable") : nil)
    }

    /// Names the settings of that key.
    package func streamKeySettings(of app: String) -> String {
        let section = app == AppName.standard ? "cable" : "apps.\(app).cable"
        return "\(section).signed_stream_key or \(section).secret_key_base"
    }

    /// A server that was given neither a secret nor a key set gets a secret of its own, beside the database. There is no place
    /// beside a PostgreSQL database, and a node that made its own would refuse the tokens of the others.
    /// - Returns: whether it was made just now.
    /// - Throws: on PostgreSQL, a sentence.
    package mutating func makeSecretIfNone(world: World) throws -> Bool {
        guard lacksSecret else { return false }
        guard !DatabaseAddress.isPostgres(database) else { throw OperatorError(Configuration.secretRefusal) }
        try Store.makeFolder(of: database)
        let (secret, isNew) = try LocalSecret.readOrMake(besideDatabase: database, world: world)
        jwt.secret = secret
        return isNew
    }

    /// True if the configuration says nothing of how user tokens are verified.
    var lacksSecret: Bool { jwt.secret == nil && jwt.jwksFile == nil }

    static let secretRefusal =
        "On PostgreSQL set jwt.secret or jwt.jwks_file, the same on every node: beside such a database no secret can be kept."

    /// - Parameter lifetime: seconds from now.
    package func signToken(user: String, app: String, lifetime: Int64, world: World) throws -> String {
        if let mistake = UserID.mistake(user) { throw OperatorError("The user's id \(mistake.sentence)") }
        try OperatorCommands.check(app)
        guard let secret = jwt.secret else { throw OperatorError("There is no jwt.secret to sign with.") }
        let now = world.now()
        return UserTokenSigner.sign(
            userID: user, app: app, issuedAt: now,
            expiresAt: Timestamp(milliseconds: now.milliseconds + lifetime * 1_000), secret: secret,
            issuer: jwt.issuer, audience: jwt.audience)
    }
}
