import ArgumentParser
import CampanileCore
import CampanileServer
import Glibc
import Logging

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Bring the database's schema up to date; a SQLite file is copied beside itself before.")

    @OptionGroup var common: CommonOptions

    @Flag(help: "Only say what would be done: exit status 1 if a migration is pending.")
    var check = false

    func run() async throws {
        let configuration = try common.load()
        if check {
            let pending = try OperatorCommands.pendingMigrations(configuration)
            for name in pending { print(name) }
            say(pending.isEmpty ? "The database is up to date." : "\(pending.count) pending.")
            if !pending.isEmpty { throw ExitCode(1) }
            return
        }
        let operations = try common.operations(configuration)
        defer { operations.close() }
        let schema = operations.schema
        if schema.from == schema.to {
            say("The database was up to date (schema \(schema.to)).")
        } else {
            say("The database went from schema \(schema.from) to \(schema.to).")
        }
        if let backup = schema.backupPath { say("The file as it was: \(backup)") }
    }
}

struct Keys: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "API keys of producers, of those who watch the server, and of those who broadcast.",
        subcommands: [Create.self, List.self, Revoke.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make a key. It is shown this once.")

        @OptionGroup var common: CommonOptions
        @Argument(help: "What the key is for; unique among the valid ones.") var name: String
        @Option(help: "The app that the key is for.") var app = AppName.standard
        @Flag(
            help:
                "A key for operators: looks at the app's state, users and pushes (/metrics, /readyz, /operate), and changes nothing."
        )
        var operate = false
        @Flag(help: "A key that broadcasts to the app's own streams (POST /broadcasts, /_broadcast), and does nothing else.")
        var broadcast = false

        private var kind: APIKeyKind { operate ? .operate : broadcast ? .broadcast : .producer }

        func validate() throws {
            if operate, broadcast { throw ValidationError("A key is made with --operate or with --broadcast, not with both.") }
        }

        func run() async throws {
            let operations = try common.operations(try common.load())
            defer { operations.close() }
            print(try operations.createKey(name: name, app: app, kind: kind))
            say("This is the only time that the key is shown; only its SHA-256 is kept.")
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "The keys, without the secrets.")

        @OptionGroup var common: CommonOptions

        func run() async throws {
            let operations = try common.operations(try common.load(), isMade: false)
            defer { operations.close() }
            for key in try operations.keys() {
                let end = key.revokedAt.map { "revoked \($0)" } ?? "valid"
                print("\(key.name)\t\(key.app)\tcreated \(key.createdAt)\t\(end)\t\(key.kind.rawValue)")
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End a key. A running server refuses it within a second, the nodes of a cluster within two.")

        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of a valid key.") var name: String

        func run() async throws {
            let operations = try common.operations(try common.load(), isMade: false)
            defer { operations.close() }
            try operations.revokeKey(name: name)
            say("The key \(name) is revoked.")
        }
    }
}

struct Token: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make a user token, signed with the server's secret: for trying things out.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The user's id.") var user: String
    @Option(help: "The user's app.") var app = AppName.standard
    @Option(help: "How long it is valid, such as 30s, 15m, 24h or 7d.") var ttl = Lifetime(seconds: 24 * 3_600)

    func run() async throws {
        var configuration = try common.load()
        guard configuration.jwt.jwksFile == nil else {
            throw OperatorError("User tokens are verified with the keys of jwt.jwks_file: only their owner can sign one.")
        }
        _ = try configuration.makeSecretIfNone(world: .live)
        print(try configuration.signToken(user: user, app: app, lifetime: ttl.seconds, world: .live))
    }
}

struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sign a user out everywhere: every token issued before now is refused, and its streams end within a second; "
            + "on the nodes of a cluster within two.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The user's id.") var user: String
    @Option(help: "The user's app.") var app = AppName.standard

    func run() async throws {
        let operations = try common.operations(try common.load(), isMade: false)
        defer { operations.close() }
        try operations.revoke(user: user, app: app)
        say("The tokens of \(user) are revoked. A token that says no time of issue (iat) is refused from now on.")
    }
}

struct StreamName: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stream-name", abstract: "Sign the name of a stream, as Rails' turbo_stream_from does.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The name, such as notifications:17.") var name: String
    @Option(help: "The app whose key signs it.") var app = AppName.standard

    func run() async throws {
        let configuration = try common.load()
        guard let signed = try configuration.signStreamName(name, app: app) else {
            throw OperatorError("Set the key that Rails signs with: \(configuration.streamKeySettings(of: app)).")
        }
        print(signed)
    }
}

struct Notify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create a notification. A running server sends its pushes within a second.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The user's id.") var user: String?
    @Argument var title: String?
    @Argument var body: String?
    @Option(help: "A file with the body of a POST /notifications instead, or - for standard input.") var json: String?
    @Option(help: "The user's app.") var app = AppName.standard

    func validate() throws {
        guard (json == nil) == (body != nil), json == nil || user == nil else {
            throw ValidationError("Give USER TITLE BODY, or --json FILE.")
        }
    }

    func run() async throws {
        let configuration = try common.load()
        let operations = try common.operations(configuration)
        defer { operations.close() }
        if let json {
            print(try await operations.notify(file: json, app: app, configuration))
        } else if let user, let title, let body {
            print(try await operations.notify(user: user, app: app, title: title, body: body))
        }
    }
}

struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Say what became of a notification's pushes, device by device, or why nothing was owed.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The notification's id.") var id: String

    func run() async throws {
        let operations = try common.operations(try common.load(), isMade: false)
        defer { operations.close() }
        for line in try operations.explain(id) { print(line) }
    }
}

struct Stats: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Say what there is, at a glance: inboxes, devices, the last hour's pushes, and what waits.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let operations = try common.operations(try common.load(), isMade: false)
        defer { operations.close() }
        for line in try operations.stats() { print(line) }
    }
}

struct Nodes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: """
            List the nodes that serve a PostgreSQL database: name, address, version, start, when it was last heard of, and how many of \
            the \(OperatorCommands.shards) shards of device tokens it sends to.
            """)

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let operations = try common.operations(try common.load(), isMade: false)
        defer { operations.close() }
        for line in try operations.nodes() { print(line) }
    }
}

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: """
            Check everything that pushes depend on and the newest backup's age, and sign a stream's name to compare with Rails: \
            exit status 1 if anything is wrong. Sends nothing to any device, unless one is named with --send or --user, and nothing to \
            pages, unless a stream is named with --stream.
            """)

    @OptionGroup var common: CommonOptions
    @Option(help: "Send an alert and a badge push to the device with this token or installation ID, and say what comes of them.")
    var send: String?
    @Option(help: "Send the same to this user's latest registered device.") var user: String?
    @Option(help: "Sign the name of this stream of the app's own, and send a test broadcast to it.") var stream: String?
    @Option(help: "The device's app, or the stream's.") var app = AppName.standard
    @Option(help: "The device's platform, \(words(DevicePlatform.self)).", transform: word) var platform: DevicePlatform?
    @Option(help: "The environment of its token, \(words(DeviceEnvironment.self)).", transform: word) var environment:
        DeviceEnvironment?
    @Option(help: "The kind of its identifier, \(words(DeviceTokenKind.self)).", transform: word) var kind: DeviceTokenKind?
    @Flag(help: "Then print what the server knows of the device, without what names a user or a device.") var report = false
    @Option(name: .customLong("apns-url"), help: "The URL of a server to use instead of Apple's hosts.") var apnsURL: String?
    @Option(name: .customLong("fcm-url"), help: "The URL of a server to use instead of Google's host.") var fcmURL: String?
    @Option(name: .customLong("push-ca"), help: "A PEM file of the authorities to trust for pushes.") var pushCA: String?

    func run() async throws {
        let configuration = try common.loadForOneCommand(
            Configuration.Flags(database: common.database, apnsURL: apnsURL, fcmURL: fcmURL, pushCA: pushCA))
        common.tellPassedOver(configuration)
        let logger = Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() }
        let doctor = Doctor(configuration, world: .live, logger: logger)
        var isGood = true
        func tell(_ finding: Doctor.Finding) {
            print("\(finding.isGood ? "good " : "WRONG")  \(finding.subject): \(finding.sentence)")
            isGood = isGood && finding.isGood
        }
        if let addressee {
            try await doctor.send(to: addressee, tell: tell, look: DoctorCommand.look)
            if report { for line in try doctor.report(on: addressee) { print(line) } }
        } else if let stream {
            for finding in try await doctor.broadcast(to: stream, app: app) { tell(finding) }
        } else {
            for finding in await doctor.examine() { tell(finding) }
        }
        if !isGood { throw ExitCode(1) }
    }

    func validate() throws {
        guard send == nil || user == nil else { throw ValidationError("Name the device with --send or with --user.") }
        guard stream == nil || addressee == nil else { throw ValidationError("Name a device or a stream, not both.") }
        let needsDevice = report || platform != nil || environment != nil || kind != nil
        guard addressee != nil || !needsDevice else {
            throw ValidationError("--platform, --environment, --kind and --report need a device: name it with --send or --user.")
        }
    }

    private var addressee: Doctor.Addressee? {
        let name = send.map { Doctor.Addressee.Name.token($0) } ?? user.map { .user($0) }
        return name.map { .init($0, app: app, platform: platform, environment: environment, kind: kind) }
    }

    /// Waits for somebody at a terminal, and for nobody else.
    private static func look(_ number: Int64) {
        guard isatty(STDIN_FILENO) == 1 else { return }
        say("Look at the icon: it should show \(number). Then press Return.")
        _ = readLine()
    }
}

/// Reads one of a type's words.
private func word<Word: CaseIterable & RawRepresentable>(_ text: String) throws -> Word where Word.RawValue == String {
    guard let word = Word(rawValue: text) else { throw ValidationError("It must be \(words(Word.self)).") }
    return word
}

/// Lists the words of a type, for a help text.
private func words<Word: CaseIterable & RawRepresentable>(_ type: Word.Type) -> String where Word.RawValue == String {
    type.allCases.map(\.rawValue).joined(separator: " or ")
}

struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract:
            "Ask the server of this configuration whether it answers (/healthz): exit status 1 if it doesn't. For supervisors.")

    @OptionGroup var common: CommonOptions
    @Option(help: "The address that the server listens on, if `serve` was given one.") var host: String?
    @Option(help: "The same for the port.") var port: Int?
    @Flag(help: "Ask whether it can do its work (/readyz), and say why not.") var ready = false

    func run() async throws {
        let configuration = try common.loadForOneCommand(Configuration.Flags(host: host, port: port, database: common.database))
        say(try HealthCheck(configuration, isReadiness: ready).run())
    }
}

struct BadgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "badge", abstract: "The badges.", subcommands: [Audit.self])

    struct Audit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count every inbox anew and compare: exit status 1 if a kept count is wrong.")

        @OptionGroup var common: CommonOptions

        func run() async throws {
            let operations = try common.operations(try common.load(), isMade: false)
            defer { operations.close() }
            let progress = ProgressLine()
            defer { progress.end() }
            let audit = try operations.auditBadges { progress.show("Counting", $0, of: $1) }
            progress.end()
            for difference in audit.differences {
                print(
                    "\(difference.app)\t\(difference.userID)\tkept \(difference.kept.unread)"
                        + " (\(difference.kept.sinceCleared) since cleared),"
                        + " counted \(difference.counted.unread) (\(difference.counted.sinceCleared)),"
                        + " overlooked \(difference.overlooked)")
            }
            for inbox in audit.unreadable { print("\(inbox.inbox)\tcan't be read: \(inbox.reason)") }
            say(audit.summary)
            if !audit.isGood { throw ExitCode(1) }
        }
    }
}

/// A duration on the command line.
struct Lifetime: ExpressibleByArgument {
    let seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    init?(argument: String) {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400]
        guard let unit = argument.last.flatMap({ units[$0] }), let count = Int64(argument.dropLast()), count > 0,
            count < 100_000
        else { return nil }
        seconds = count * unit
    }

    var defaultValueDescription: String { "\(seconds / 3_600)h" }
}
