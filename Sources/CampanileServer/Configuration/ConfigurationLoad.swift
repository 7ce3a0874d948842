import CampanileCore
import Logging

extension Configuration {
    /// The file to read when the command line names none. It may be missing.
    package static let defaultFile = "campanile.yaml"

    /// Reads the settings: flags over environment over file over defaults.
    ///
    /// - Parameters:
    ///   - file: The path of the file; nil reads none.
    ///   - fileIsRequired: Whether a missing file is a problem. An existing one must be valid in any case.
    ///   - environment: The process's variables. Those that begin with `CAMPANILE_` are settings, except the clients'
    ///     and those of others (`passedOver`).
    ///   - flags: The flags of the command line.
    /// - Throws: Every problem of all sources together. Nothing malformed falls back to a default.
    package static func load(
        file: String?, fileIsRequired: Bool, environment: [String: String], flags: Flags
    ) throws(ConfigurationProblems) -> Configuration {
        let document = file.map { ConfigurationDocument.read(path: $0, isRequired: fileIsRequired) } ?? .none
        let reader = ConfigurationReader(document: document, environment: environment)
        var configuration = Configuration(reader, flags)
        let problems = reader.finish()
        guard problems.isEmpty else { throw ConfigurationProblems(problems) }
        configuration.passedOver = reader.passedOver
        return configuration
    }

    /// Reads every setting. The result is valid only if `reader` has no problem at the end.
    init(_ reader: ConfigurationReader, _ flags: Flags) {
        self.init()
        let root = reader.root
        root.value("host", .host, flag: .flag("--host", flags.host)).map { host = $0.value }
        let port = root.value("port", .port, flag: .flag("--port", flags.port.map(String.init)))
        port.map { self.port = $0.value }
        setDatabase(flags, reader: reader, root: root)
        root.value("database_checkpoints", .boolean).map { databaseCheckpoints = $0.value }
        root.value("database_read_timeout", .duration(atLeast: 1_000)).map { databaseReadMilliseconds = $0.value }
        jwt = JWT(root.section("jwt"))
        root.list("native_user_agents", .text).map { nativeUserAgents = $0.value }
        badge = Badge(root.section("badge"))
        apps = App.all(in: root)
        setEndpoints(flags, reader: reader, root: root)
        push = Push(root.section("push"), flags)
        streams = Streams(root.section("streams"))
        cable = Cable(root.section("cable"), apps)
        broadcasts = BroadcastKeeping(root.section("broadcasts"))
        refuseSharedCableKeys(reader)
        root.list("allowed_origins", .origin).map { allowedOrigins = $0.value }
        root.list("trusted_proxies", .network).map { trustedProxies = $0.value }
        deepLinks = DeepLinkTree(root) ?? DeepLinkTree()
        categories = NotificationCategory.all(in: root) ?? [:]
        root.value("categories_only", .boolean).map { categoriesOnly = $0.value }
        pathConfiguration = PathConfiguration(root.section("path_configuration"))
        root.value("console", .boolean).map { console = $0.value }
        metrics = Metrics(root.section("metrics"), mainPort: self.port)
        root.value("log_level", .word(Logger.Level.self)).map { logLevel = $0.value }
        backup = Backup(root.section("backup"), isPostgres: DatabaseAddress.isPostgres(database))
        retention = Retention(root.section("retention"))
        root.close()
    }

    /// The key that verifies a stream's name, or a sender, says which app it is: two apps can't have one.
    private func refuseSharedCableKeys(_ reader: ConfigurationReader) {
        let keys = [("cable", cable.keys)] + apps.sorted { $0.key < $1.key }.map { ("apps.\($0.key).cable", $0.value.cable) }
        for (index, (name, own)) in keys.enumerated() {
            for (other, others) in keys[..<index] {
                let isShared =
                    own.signedStreamKey.map { $0 == others.signedStreamKey } == true
                    || own.secretKeyBase.map { $0 == others.secretKeyBase } == true
                if isShared, let origin = own.streamOrigin {
                    reader.report(origin, "\(name) and \(other) have one key for streams, which says the app: give each its own")
                }
                if let origin = own.secretOrigin, own.anyCableSecret == others.anyCableSecret {
                    reader.report(origin, "\(name) and \(other) have one anycable_secret, which says the app: give each its own")
                }
            }
        }
    }

    private mutating func setDatabase(_ flags: Flags, reader: ConfigurationReader, root: ConfigurationSection) {
        let found = root.everyValue("database", .database, flag: .flag("--database", flags.database))
        if let text = flags.database, DatabaseAddress.holdsPassword(text) {
            reader.report(.flag("--database"), "database \(DatabaseAddress.passwordRefusal)")
        }
        guard let first = found.first else { return }
        database = first.value
        if flags.database != nil, flags.isForOneCommand { return }
        // A service or an image that names a file for those who name nothing would hide the cluster's database: the node would serve
        // what was moved away long ago.
        for other in found.dropFirst() where !DatabaseAddress.areSame(first.value, other.value) {
            guard [first, other].contains(where: { DatabaseAddress.isPostgres($0.value) }) else { continue }
            reader.report(
                other.origin,
                "database is \(DatabaseAddress.describe(other.value)) here, and \(DatabaseAddress.describe(first.value)) in "
                    + "\(first.origin), which would win (a flag beats the environment, and the environment the file): name the same "
                    + "database in both, or take one of them away")
        }
    }

    /// Replaces the URLs of all apps by the flags'. A flag that no app would use is a mistake: the pushes meant for it
    /// would go to the sandbox.
    private mutating func setEndpoints(_ flags: Flags, reader: ConfigurationReader, root: ConfigurationSection) {
        let apns = WrittenValue.flag("--apns-url", flags.apnsURL)
        let fcm = WrittenValue.flag("--fcm-url", flags.fcmURL)
        if let apns, let url = root.scalar(apns, .endpoint, named: "the URL")?.value {
            let names = apps.filter { $0.value.apns != nil }.keys
            for name in names { apps[name]?.apns?.url = url }
            if names.isEmpty { reader.reportMissing(apns.origin, "no app has apns, so no push would use the URL") }
        }
        if let fcm, let url = root.scalar(fcm, .endpoint, named: "the URL")?.value {
            let names = apps.filter { $0.value.fcm != nil }.keys
            for name in names { apps[name]?.fcm?.url = url }
            if names.isEmpty { reader.reportMissing(fcm.origin, "no app has fcm, so no push would use the URL") }
        }
    }
}

extension WrittenValue {
    /// A flag's value, if it was given.
    static func flag(_ name: String, _ text: String?) -> WrittenValue? {
        text.map { WrittenValue(content: .scalar(.init(text: $0, style: .outside)), origin: .flag(name)) }
    }
}
