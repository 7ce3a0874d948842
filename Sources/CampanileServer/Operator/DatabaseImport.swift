package import CampanileCore
import FoundationEssentials
import SQLEngine

/// Fills a database from a file of another system's, beside a server or without one.
///
/// Without a server it holds the server's lock, and copies the log itself. Beside one it leaves the log to the server: SQLite
/// allows one process to copy it (docs/runbook.md). PostgreSQL has neither lock nor log of ours: without a node it takes larger
/// transactions, and pauses between none.
package struct DatabaseImport: Sendable {
    package enum Kind: Sendable { case devices, notifications }

    let configuration: Configuration
    let kind: Kind
    let app: String
    let world: World

    package init(of kind: Kind, _ configuration: Configuration, app: String, world: World) throws {
        try OperatorCommands.check(app)
        self.kind = kind
        self.configuration = configuration
        self.app = app
        self.world = world
    }

    /// - Parameters:
    ///   - path: CSV or NDJSON; `-` is standard input.
    ///   - isDryRun: only checks, and says what would be done.
    ///   - progress: called now and then.
    ///   - isStopped: whether to stop. What is written then stays, and another run goes on from there.
    /// - Returns: what was done; with mistakes nothing was.
    package func run(
        _ path: String, isDryRun: Bool,
        progress: @escaping @Sendable (_ part: ImportPart, _ done: Int, _ all: Int) -> Void = { _, _, _ in },
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) async throws -> ImportReport {
        if isDryRun { try Store.requireExisting(configuration.database) }
        let isFile = !DatabaseAddress.isPostgres(configuration.database)
        let lock = isDryRun || !isFile ? nil : try? ServerLock(database: configuration.database)
        defer { lock?.release() }
        let database = try open(isAlone: lock != nil)
        // Before the lock is released: a server that starts then is the only one that copies the log.
        defer { database.close() }
        let isAlone = try isFile ? lock != nil : !(database.nodeReports() ?? []).contains(where: \.isAlive)
        let file = try ImportFile(path, copiesTo: folder)
        switch kind {
        case .notifications:
            let work = NotificationImport(
                app: app, rules: configuration.notificationRules(of: app),
                deliveriesMilliseconds: configuration.retention.deliveriesMilliseconds, random: world.random)
            return try await FileImport(
                work: work, database: database, world: world, isAlone: isAlone, progress: progress, isStopped: isStopped
            ).run(file, isDryRun: isDryRun)
        case .devices:
            let registry = DeviceRegistry(database: database, badgePushes: BadgePushes(configuration))
            let work = DeviceImport(app: app, registry: registry)
            return try await FileImport(
                work: work, database: database, world: world, isAlone: isAlone, progress: progress, isStopped: isStopped
            ).run(file, isDryRun: isDryRun)
        }
    }

    private func open(isAlone: Bool) throws -> Store {
        guard isAlone else { return try Store.openBeside(configuration.database, world: world).database }
        guard configuration.databaseCheckpoints else { return try Store.open(configuration.database, world: world).database }
        var options = DatabaseOptions()
        options.walAutocheckpointPages = Limits.walAutocheckpointPages
        return try Store.open(configuration.database, options: options, world: world).database
    }

    /// For a copy of what can't be read twice: beside the database's file, where there is room.
    private var folder: String {
        if DatabaseAddress.isPostgres(configuration.database) { return FileManager.default.temporaryDirectory.path }
        guard let slash = configuration.database.lastIndex(of: "/") else { return "." }
        return slash == configuration.database.startIndex ? "/" : String(configuration.database[..<slash])
    }
}
