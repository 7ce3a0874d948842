import CampanileCore
import Glibc
import SQLEngine
import SystemSupport

/// Opens the SQLite file for a program: the folder is made, the schema is brought up to date, and a file of somebody else or
/// of a newer version is refused with a sentence that helps.
extension Store {
    /// The options with which a command opens the database. It leaves the log to a server that may run beside it: two
    /// processes that copy it at the same time delay each other, or worse (docs/runbook.md).
    private static let commandOptions: DatabaseOptions = {
        var options = DatabaseOptions()
        options.walAutocheckpointPages = .max
        return options
    }()

    static func open(
        _ path: String, options: DatabaseOptions = commandOptions, world: World,
        copying: @escaping DatabaseCopy.Progress = { _, _ in }
    ) throws -> (database: Store, migrated: MigrationReport) {
        try makeFolder(of: path)
        var options = options
        options.clock = { world.now().milliseconds }
        return try explaining(path) { [options] in
            let report = try Migrations.migrator.migrate(path: path, options: options, backup: true, copying: copying)
            return (Store(try Database(path: path, options: options)), report)
        }
    }

    /// Opens the copy of a backup, and brings its schema up to date. The backup itself is the copy of before.
    static func openRestored(_ path: String, world: World) throws -> (database: Store, file: Database) {
        var options = commandOptions
        options.clock = { world.now().milliseconds }
        return try explaining(path) { [options] in
            try Migrations.migrator.migrate(path: path, options: options, backup: false)
            let file = try Database(path: path, options: options)
            return (Store(file), file)
        }
    }

    /// The file under that name, which is made if it isn't there.
    static func find(_ path: String) throws -> DatabaseFile {
        try makeFolder(of: path)
        return try explaining(path) { try DatabaseFile(path) }
    }

    /// The names of the migrations that opening would run.
    static func pendingMigrations(file path: String) throws -> [String] {
        try explaining(path) { try Migrations.migrator.pending(path: path).map(\.name) }
    }

    /// Names the database, and what to do if it is damaged.
    static func explained(_ error: SQLError, _ path: String) -> OperatorError {
        let remedy = error.isDamage ? " \(SQLError.damageRemedy)" : ""
        return OperatorError("The database \(path) can't be used: \(error.message).\(remedy)")
    }

    /// Names the database in the error of an operation on it.
    static func explaining<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as SQLError {
            throw explained(error, path)
        } catch MigrationError.newerSchema(_, let program, let found, let known, let backup) {
            throw OperatorError(
                "The database \(path) was written by a newer \(program) (schema \(found), this program knows \(known)), and was "
                    + "not changed. Install that version again. Or go back, without what was written since: move the database "
                    + "away, with its -wal and -shm, and run: campanile restore "
                    + (backup ?? "BACKUP, with a backup made before that version was installed"))
        }
    }

    /// False only where there is certainly no file: one that can't be looked at is another trouble, and opening it says so.
    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR) }

    /// Tells whether the name is taken, also by a symbolic link that leads nowhere.
    static func isTaken(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// Makes the missing folders above a file, for their owner alone, and has the disk keep their names: a file that is
    /// synced in a folder that a power failure takes is lost.
    static func makeFolder(of path: String) throws {
        guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return }
        let folder = String(path[..<slash])
        var made = ""
        for part in folder.split(separator: "/", omittingEmptySubsequences: false) {
            let above = made.isEmpty ? "." : made
            made += made.isEmpty && part.isEmpty ? "/" : made.isEmpty || made == "/" ? part : "/" + part
            guard !made.isEmpty else { continue }
            guard mkdir(made, 0o700) != 0 else {
                try sync(above)
                continue
            }
            guard errno != EEXIST else { continue }
            // Some folders can't even be asked to be made again, such as one on a read-only disk.
            guard access(made, F_OK) != 0 else { continue }
            throw OperatorError("The folder \(made) can't be made: \(String(cString: strerror(errno))).")
        }
    }

    private static func sync(_ folder: String) throws {
        let reason = File.sync(folder)
        guard reason == 0 else {
            throw OperatorError("The folder \(folder) can't be synced: \(String(cString: strerror(reason))).")
        }
    }
}
