import ArgumentParser
import CampanileServer
import Glibc
import Logging

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Serve until SIGTERM or SIGINT.")

    @OptionGroup var common: CommonOptions

    @Option(help: "The address to listen on (default: 127.0.0.1).")
    var host: String?

    @Option(help: "The port to listen on; 0 takes a free one (default: 3001).")
    var port: Int?

    @Option(name: .customLong("apns-url"), help: "The URL of a server to use instead of Apple's hosts.")
    var apnsURL: String?

    @Option(name: .customLong("fcm-url"), help: "The URL of a server to use instead of Google's host.")
    var fcmURL: String?

    @Option(name: .customLong("push-ca"), help: "A PEM file of the authorities to trust for pushes.")
    var pushCA: String?

    func run() async throws {
        let socket = try SocketActivation.take()
        let signals = TerminationSignals()
        let sink = LogSink.standardError
        LoggingSystem.bootstrap { _ in SinkLogHandler(sink: sink, world: .live) }
        let logger = Logger(label: "campanile")

        let flags = Configuration.Flags(
            host: host, port: port, database: common.database, apnsURL: apnsURL, fcmURL: fcmURL, pushCA: pushCA)
        var configuration = try common.load(flags)
        let isSecretMade = try configuration.makeSecretIfNone(world: .live)
        let app = try await App(
            configuration: configuration, world: .live, sink: sink, logger: logger, socket: socket,
            unsafe: try UnsafeOptions(environment: Environment.all))
        greet(app, isInherited: socket != nil, isSecretMade: isSecretMade, logger: logger)
        signals.onHangup { reload(app, flags, logger: logger) }
        let signal = await signals.first()
        logger.notice("Stopping.", metadata: ["signal": "\(signal)"])
        await app.stop()
        withExtendedLifetime(signals) {}
    }

    /// Reads the push credentials and the log level again, at SIGHUP. Other settings need a restart.
    private func reload(_ app: App, _ flags: Configuration.Flags, logger: Logger) {
        do {
            try app.reload(try common.load(flags))
        } catch {
            logger.error("The configuration can't be used; the present push credentials stay.", metadata: ["error": "\(error)"])
        }
    }

    private func greet(_ app: App, isInherited: Bool, isSecretMade: Bool, logger: Logger) {
        let host = app.host.contains(":") ? "[\(app.host)]" : app.host
        let address = "http://\(host):\(app.port)"
        let database = DatabaseAddress.describe(app.configuration.database)
        logger.notice("Serving.", metadata: ["address": "\(address)", "database": "\(database)"])
        if isInherited { tellInherited(app, logger: logger) }
        tellPassedOver(app.configuration.passedOver, logger: logger)
        if let backup = app.backupPath {
            logger.notice("The database was migrated; a copy of the old file is kept.", metadata: ["backup": "\(backup)"])
        }
        let named = app.configuration.apps.filter { $0.value.apns != nil || $0.value.fcm != nil }
        for (name, app) in named.sorted(by: { $0.key < $1.key }) where app.apns == nil || app.fcm == nil {
            let missing = app.apns == nil ? "apns" : "fcm"
            logger.warning(
                "The app has no credentials for \(missing): the sandbox records those pushes, and no device gets them.",
                metadata: ["app": "\(name)"])
        }
        say("")
        say("Campanile listens on \(address)")
        if named.isEmpty {
            say("No push credentials: the built-in sandbox records pushes, and GET /sandbox/pushes shows them.")
        } else {
            say("Pushes of \(named.keys.sorted().joined(separator: ", ")) go to their providers, of other apps to the sandbox.")
        }
        if let port = app.metricsPort { say("The metrics: http://\(host):\(port)/metrics") }
        if app.configuration.console { say("The console: \(address)/console") }
        if isSecretMade {
            say("User tokens are signed with a new secret: \(LocalSecret.path(besideDatabase: app.configuration.database))")
        }
        suggest(app.configuration, address)
    }

    /// Logs that the socket is the supervisor's, and whether its port differs from the configured one: changing the
    /// configured port has no effect then, and `campanile health` uses it.
    private func tellInherited(_ app: App, logger: Logger) {
        logger.notice("The supervisor passed the listening socket: clients that connect during a restart wait in it.")
        let configured = app.configuration.port
        guard configured != 0, configured != Int(app.port) else { return }
        logger.warning(
            "The configured port isn't used: the supervisor's socket has another one.",
            metadata: ["configured": "\(configured)", "port": "\(app.port)"])
    }

    /// Logs which environment variables aren't settings.
    private func tellPassedOver(_ passedOver: Configuration.PassedOver, logger: Logger) {
        if !passedOver.unknown.isEmpty {
            logger.warning(
                "Variables that aren't settings are ignored.",
                metadata: ["variables": "\(passedOver.unknown.joined(separator: ", "))"])
        }
        if !passedOver.serviceLinks.isEmpty {
            logger.notice(
                "Variables that describe services beside this one, as Kubernetes sets them, are ignored.",
                metadata: ["variables": "\(passedOver.serviceLinks.joined(separator: ", "))"])
        }
    }

    /// The database for the lines to paste; nil where the commands find it by themselves. PostgreSQL's may hold a password, so it is
    /// repeated only where it was a flag, which may not.
    private func shownDatabase(_ configuration: Configuration) -> String? {
        if DatabaseAddress.isPostgres(configuration.database) { return common.database }
        return configuration.database == Configuration().database ? nil : configuration.database
    }

    /// The variables that the commands need as well.
    private static func variables(of configuration: Configuration) -> String {
        let given = Environment.all.keys
        var names: [String] = []
        if given.contains(where: { $0.hasPrefix("CAMPANILE_JWT_") }) { names.append("CAMPANILE_JWT_") }
        if DatabaseAddress.isPostgres(configuration.database) {
            if given.contains("CAMPANILE_DATABASE") { names.append("CAMPANILE_DATABASE") }
            if given.contains(where: { $0.hasPrefix("PG") }) { names.append("PG") }
        }
        return names.isEmpty ? "" : " and with the same \(names.joined(separator: " and ")) variables"
    }

    /// The lines to paste: the program as it was started, with the same database and configuration.
    private func suggest(_ configuration: Configuration, _ address: String) {
        let program = shellWord(CommandLine.arguments.first ?? "campanile")
        var options = common.config.map { " --config \(shellWord($0))" } ?? ""
        if let database = shownDatabase(configuration) { options += " --database \(shellWord(database))" }
        say("")
        say("Try it from another terminal, in the same directory\(Self.variables(of: configuration)):")
        say("  KEY=$(\(program) keys create demo\(options))       # a producer's API key")
        if configuration.jwt.jwksFile == nil {
            say("  TOKEN=$(\(program) token alice\(options))          # a user's token")
            say("  curl -H \"Authorization: Bearer $TOKEN\" \(address)/badge")
        } else {
            // Only the owner of the keys can make a user token.
            let call = "curl -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json'"
            say("  \(call) -d '{\"user_id\":\"alice\",\"title\":\"Hello\"}' \(address)/notifications")
        }
        say("")
    }
}
