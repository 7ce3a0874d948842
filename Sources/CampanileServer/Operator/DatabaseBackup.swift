package import CampanileCore
import Glibc
package import SQLEngine

/// A backup: a copy of a database, also of one in use, with the secret that the server made beside it. `DatabaseRestore`
/// takes it.
package struct DatabaseBackup: Sendable {
    /// The database's name.
    let database: String

    package init(of database: String) { self.database = database }

    /// The file that a backup gets: in a folder it is named by the time.
    package static func target(_ path: String, now: Timestamp) -> String {
        var status = stat()
        let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
        guard isFolder || path.hasSuffix("/") else { return path }
        return path + (path.hasSuffix("/") ? "" : "/") + name(at: now)
    }

    /// Makes a backup, beside a server or without one, on the calling thread. It doesn't migrate the database.
    package func make(at target: String, progress: @escaping DatabaseCopy.Progress) throws {
        try DatabaseBackup.requireFile(database)
        try Store.requireExisting(database)
        // Refuses the file of another program or of a newer version.
        _ = try Store.pendingMigrations(database)
        let source = try Store.find(database).path
        let hasSecret = try prepare(target)
        do {
            try DatabaseCopy(of: source, to: target).make(progress: progress)
        } catch {
            throw failure(error, target, hasSecret: hasSecret)
        }
    }

    /// - Throws: on PostgreSQL, which has means of its own.
    static func requireFile(_ address: String) throws {
        guard DatabaseAddress.isPostgres(address) else { return }
        throw OperatorError(
            "\(DatabaseAddress.describe(address)) is a PostgreSQL database. Back it up and restore it with PostgreSQL's own means: "
                + "pg_dump, pgBackRest, or your provider's snapshots.")
    }

    /// Copies a server's own database, on another thread.
    func make(of database: Store, at target: String, progress: @escaping DatabaseCopy.Progress) async throws {
        guard case .sqlite(let file) = database.base else { return try Self.requireFile(self.database) }
        let hasSecret = try prepare(target)
        do {
            try await file.copy(to: target, progress: progress)
        } catch {
            throw failure(error, target, hasSecret: hasSecret)
        }
    }

    /// Makes the folder, and copies the secret: the database's copy gets its name last, and is complete then.
    /// - Returns: whether there is a secret.
    private func prepare(_ target: String) throws -> Bool {
        guard !Store.isTaken(target) else { throw OperatorError("\(target) is there already: a backup overwrites nothing.") }
        try requireOther(target)
        try Store.makeFolder(of: target)
        switch try LocalSecret.copy(from: database, to: target) {
        case .none: return false
        case .made: return true
        case .taken:
            throw OperatorError("\(LocalSecret.path(besideDatabase: target)) is there already: a backup overwrites nothing.")
        }
    }

    /// A database's other files aren't always there: SQLite would take a backup with the name of one for it.
    private func requireOther(_ target: String) throws {
        let wanted = DatabaseBackup.place(target)
        for own in [database, DatabaseFile.path(database) ?? database].map(DatabaseBackup.place)
        where FileIdentity(of: own.folder) == FileIdentity(of: wanted.folder) {
            let others = ["-wal", "-shm", "-journal", ".lock", LocalSecret.suffix].map { own.name + $0 }
            guard !others.contains(wanted.name) else {
                throw OperatorError("\(target) is a name for a part of the database itself: give the backup another one.")
            }
        }
    }

    /// The folder of a file, with its slash, and the file's own name.
    private static func place(_ path: String) -> (folder: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        return (String(path[...slash]), String(path[path.index(after: slash)...]))
    }

    /// Removes the copied secret of a backup that wasn't made.
    /// - Returns: the error for the operator.
    private func failure(_ error: any Error, _ target: String, hasSecret: Bool) -> any Error {
        if hasSecret { unlink(LocalSecret.path(besideDatabase: target)) }
        guard let error = error as? SQLError else { return error }
        return OperatorError("The backup \(target) can't be made: \(error.message).")
    }
}

// MARK: - Names

extension DatabaseBackup {
    private static let prefix = "campanile-"
    private static let suffix = ".sqlite"

    /// The name of a backup that began at a time, in whole seconds: `campanile-20261122T171500Z.sqlite`.
    static func name(at time: Timestamp) -> String {
        // 2026-11-22T17:15:00.000Z without its signs and the fraction.
        prefix + time.description.prefix(19).filter { $0 != "-" && $0 != ":" } + "Z" + suffix
    }

    /// The time in such a name; nil for other files.
    static func time(ofName name: String) -> Timestamp? {
        guard name.hasPrefix(prefix), name.hasSuffix(suffix) else { return nil }
        let text = Array(name.dropFirst(prefix.count).dropLast(suffix.count))
        guard text.count == 16 else { return nil }
        let date = "\(String(text[0..<4]))-\(String(text[4..<6]))-\(String(text[6..<8]))"
        let time = "\(String(text[9..<11])):\(String(text[11..<13])):\(String(text[13..<15]))"
        guard let found = Timestamp("\(date)T\(time)Z"), self.name(at: found) == name else { return nil }
        return found
    }
}
