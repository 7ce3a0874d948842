import CampanileCore
import SQLEngine

/// What gives a repository its connection: a reader, or a transaction.
protocol StoreAccess {
    /// The connection for a statement that reads. That of a transaction on PostgreSQL has been sent all that its writes gathered, so
    /// that the statement sees it.
    var connection: AnyConnection { get throws }

    /// The transaction on PostgreSQL, which locks what it reads; nil for a reader, and on SQLite, whose one writer waits for nobody.
    var unit: PostgresStoreUnit? { get }

    /// Whether the database is a SQLite file, which one program alone writes.
    var isFile: Bool { get }
}

extension StoreAccess {
    /// A transaction on PostgreSQL locks an inbox before it reads what the inbox orders. Nobody else locks anything.
    func lock(_ inbox: InboxID) throws { _ = try unit?.inbox(inbox) }
}
