/// One step of the schema, forward only.
package struct Migration: Equatable, Sendable {
    /// From 1, ascending: `user_version` of the file after this step.
    package let version: Int32
    package let name: String
    /// Statements without transaction control. SQLite doesn't enforce foreign keys while they run; the migrator checks
    /// them afterwards.
    package let sql: String

    package init(version: Int32, name: String, sql: String) {
        self.version = version
        self.name = name
        self.sql = sql
    }
}

/// The result of a migration.
package struct MigrationReport: Equatable, Sendable {
    /// `user_version` before; 0 for a new file.
    package let from: Int32
    /// `user_version` now.
    package let to: Int32
    /// The copy of the earlier state, if there was one to save.
    package let backupPath: String?

    package init(from: Int32, to: Int32, backupPath: String?) {
        self.from = from
        self.to = to
        self.backupPath = backupPath
    }
}

/// Why a file isn't migrated, in a sentence for the operator. The file is unchanged.
package enum MigrationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A newer version of the program wrote the file. `backup` is the copy that it made before, if that still exists.
    case newerSchema(path: String, program: String, found: Int32, known: Int32, backup: String?)
    /// Another program's SQLite database.
    case foreign(path: String, program: String, applicationID: Int32)
    /// A PostgreSQL database where another application has tables with names of the first migration.
    case occupied(path: String, program: String, reason: String)
    /// Not a SQLite database.
    case notADatabase(path: String)
    /// The statements failed. This migration was undone; those before it stay.
    case failed(path: String, version: Int32, name: String, cause: SQLError)
    /// The statements leave rows whose foreign keys point nowhere. This migration was undone; those before it stay.
    case brokenForeignKeys(path: String, version: Int32, name: String, table: String)

    package var description: String {
        switch self {
        case .newerSchema(let path, let program, let found, let known, let backup):
            "\(path) was written by a newer \(program) (schema \(found), this program knows \(known)): "
                + "install that version or restore \(backup ?? "a backup made before it was installed")."
        case .foreign(let path, let program, let applicationID):
            "\(path) is a database of another program (application_id \(applicationID)), not of \(program): "
                + "give another file name. It was not changed."
        case .occupied(let path, let program, let reason):
            "\(path) holds another application's tables (\(reason)): give \(program) a database of its own, or a schema "
                + "(search_path of its user). It was not changed."
        case .notADatabase(let path):
            "\(path) is not a SQLite database: give another file name, or restore a backup. It was not changed."
        case .failed(let path, let version, let name, let cause):
            "Migration \(version) (\(name)) of \(path) failed and was undone: \(cause)"
        case .brokenForeignKeys(let path, let version, let name, let table):
            "Migration \(version) (\(name)) of \(path) was undone: it leaves rows in \(table) that refer to nothing."
        }
    }
}
