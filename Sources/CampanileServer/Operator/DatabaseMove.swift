package import CampanileCore
import Glibc
import SQLEngine

/// Copies a SQLite file that no server has open into an empty PostgreSQL database, with all ids, versions and sequences, so that
/// no client notices more than a pause. Killed at any moment and run again, it goes on.
package struct DatabaseMove: Sendable {
    package enum Part: Sendable { case copy, audit }
    package typealias Progress = @Sendable (_ part: Part, _ done: Int, _ all: Int) throws -> Void

    let source: String
    let target: String
    let world: World

    /// - Parameters:
    ///   - source: the path of the SQLite file.
    ///   - target: the address of the PostgreSQL database.
    package init(from source: String, to target: String, world: World) {
        self.source = source
        self.target = target
        self.world = world
    }

    private var targetName: String { DatabaseAddress.describe(target) }

    /// - Parameter progress: called after each part; what it throws stops the move, which may go on later.
    /// - Throws: sentences. Nothing is lost then: the file stays as it is.
    package func run(progress: @escaping Progress = { _, _, _ in }) throws -> MoveReport {
        try requirePlaces()
        let lock = try ServerLock(database: source)
        defer { lock.release() }
        do {
            let opened = try Store.open(source, world: world).database
            defer { opened.close() }
            let store = try openTarget()
            defer { store.close() }
            guard case .sqlite(let file) = opened.base, case .postgres(let database) = store.base else { throw notEmpty }
            // One transaction that writes nothing: nobody else writes to the file meanwhile, as a command might.
            return try file.writeBlocking { transaction in
                try move(
                    MoveSource(connection: transaction.connection), to: MoveTarget(database: database), auditing: store, progress)
            }
        } catch let error as SQLError {
            guard error.sqlState == nil else {
                throw OperatorError(
                    "The database \(targetName) can't be used: \(error.message). The same command goes on where this one was.")
            }
            throw OperatorError("The database \(source) can't be read: \(error.message).")
        }
    }

    private func requirePlaces() throws {
        for (name, place) in [("FROM", source), ("TO", target)] {
            if let mistake = DatabaseAddress.mistake(place) { throw OperatorError("\(name) \(mistake).") }
        }
        guard !DatabaseAddress.isPostgres(source) else {
            throw OperatorError("A SQLite file is moved, and \(DatabaseAddress.describe(source)) is a PostgreSQL database.")
        }
        guard DatabaseAddress.isPostgres(target) else {
            throw OperatorError("A file is moved to postgres://user@host/name, and \(targetName) is none.")
        }
        try Store.requireExisting(source)
        let pending = try Store.pendingMigrations(source).count
        guard pending == 0 else {
            throw OperatorError(
                "\(source) is of an earlier version. Run first: campanile migrate --database \(source)")
        }
    }

    private func openTarget() throws -> Store {
        try Store.refuseUnderNodes(target)
        return try Store.explaining(cluster: target) {
            try Store.open(postgres: target, options: Self.options, world: world).database
        }
    }

    static var options: PostgresOptions {
        var options = PostgresOptions()
        // A part of the copy is one statement. A count takes as long as the table is large.
        options.statementTimeoutMilliseconds = 600_000
        options.surveyTimeoutMilliseconds = 0
        return options
    }

    // MARK: - The move

    private func move(
        _ source: MoveSource, to target: MoveTarget, auditing store: Store, _ progress: Progress
    ) throws -> MoveReport {
        let tables = try MovedTable.names.map {
            try MovedTable($0, from: source.connection, to: target.columns(of: $0))
        }
        let counts = try tables.map { try source.count($0) }
        let state = try source.programState()
        let beginning = try target.begin(source.fingerprint(counts))
        switch beginning {
        case .ready: try copy(tables, of: source, to: target, counts.reduce(0, +), progress)
        // An earlier run may have done everything, and no node written since.
        case .full: guard try target.isDone(state, versions: source.versions()) else { throw notEmpty }
        case .mixed: throw notEmpty
        }
        if let difference = try firstDifference(target, tables, counts) {
            guard beginning == .ready else { throw notEmpty }
            throw OperatorError(
                "\(difference), and something else wrote to it. Drop the database, create it again, and move anew.")
        }
        let audit = try self.audit(store, source, progress)
        if beginning == .ready {
            // The last moment: whoever asked for a stop gets none after this.
            try progress(.audit, audit.inboxes, audit.inboxes)
            try target.finish(
                state, lasts: tables.filter(\.givesIDs).map { try ($0.name, $0.lastID(in: source.connection)) })
        }
        let secret = LocalSecret.path(besideDatabase: self.source)
        return MoveReport(
            source: self.source, target: targetName, rows: Array(zip(MovedTable.names, counts)), audit: audit,
            secret: access(secret, F_OK) == 0 ? secret : nil)
    }

    private var notEmpty: OperatorError {
        OperatorError(
            "The database \(targetName) isn't empty, and what is in it didn't come from \(source) as it is now. Give an empty "
                + "one: drop it, and create it again.")
    }

    /// Counts what is there: once, because it takes long.
    /// - Returns: a sentence without its end about the first table that has more or fewer rows than before.
    private func firstDifference(_ target: MoveTarget, _ tables: [MovedTable], _ counts: [Int]) throws -> String? {
        for (table, expected) in zip(tables, counts) {
            let found = try target.count(table)
            guard found == expected else {
                return "\(table.name) has \(found) rows in \(targetName), and \(expected) in \(source)"
            }
        }
        return nil
    }

    private func copy(
        _ tables: [MovedTable], of source: MoveSource, to target: MoveTarget, _ all: Int, _ progress: Progress
    ) throws {
        var done = 0
        for table in tables {
            let before = try target.reached(table)
            var reached = before?.key
            done += before?.rows ?? 0
            try progress(.copy, done, all)
            while true {
                let rows = try table.rows(after: reached ?? MoveKey(before: table.key), in: source.connection)
                guard let key = rows.key else { break }
                try target.write(rows, of: table, before: reached)
                reached = key
                done += rows.count
                try progress(.copy, done, all)
            }
        }
    }

    /// Recounts the badges of what arrived. One that was wrong before is no fault of the move.
    private func audit(_ store: Store, _ source: MoveSource, _ progress: Progress) throws -> BadgeAudit {
        let audit = try BadgeAudit(store) { done, all in
            if done % 256 == 0 { try progress(.audit, done, all) }
        }
        for difference in audit.differences {
            let inbox = try StoreReading.sqlite(source.connection).inboxes.id(app: difference.app, userID: difference.userID)
            let before = try inbox.flatMap { try BadgeAudit.Difference(of: $0, in: .sqlite(source.connection)) }
            guard let before, before.kept == difference.kept, before.counted == difference.counted else {
                throw OperatorError(
                    "The badge of \(difference.userID) in \(difference.app) is wrong in \(targetName) and not in \(self.source): "
                        + "something else wrote to it. Drop the database, create it again, and move anew.")
            }
        }
        return audit
    }
}

/// The result of a move: what was moved, and what the audit of its badges found.
package struct MoveReport: Sendable {
    let source: String
    let target: String
    let rows: [(table: String, count: Int)]
    let audit: BadgeAudit
    /// The file of the secret that the server made for user tokens, if it made one.
    let secret: String?

    /// For people.
    package var lines: [String] {
        let filled = rows.filter { $0.count > 0 }.map { "\($0.count) \($0.table)" }
        var lines = [
            "\(target) has everything of \(source): \(filled.isEmpty ? "nothing" : filled.joined(separator: ", ")).",
            "Every table has as many rows as before, and the badges were recounted: \(audit.summary)",
        ]
        if let secret {
            lines.append(
                "User tokens are signed with the secret in \(secret). Set jwt.secret to it on every node, or those that are out there "
                    + "are refused.")
        }
        lines.append("Start the nodes with the new database, and no server with \(source) any more: it would push again.")
        return lines
    }
}
