import Glibc

/// Holds the rows that one lane's present transaction has locked and read, and what it will write. The bodies of writes work with
/// these. There is one unit per lane, on the lane's thread alone. The conforming type decides what it holds.
///
/// For each group of writes: `prepare`, the bodies in order, `flush`, the commit, `forget`. When anything fails, `forget` comes
/// after the rollback, and the writes may begin again.
@usableFromInline
package protocol PostgresUnit: AnyObject, SendableMetatype {
    /// A thing that a write will work on, for example an inbox.
    associatedtype Hint: Hashable & Sendable

    init(_ transaction: PostgresTransaction)

    /// Locks and reads what the group needs, best in one round trip.
    /// - Parameter hints: each once, in the order of their first appearance. Lock in an order that all nodes keep.
    func prepare(for hints: [Hint]) throws

    /// Queues what the bodies gathered. The commit goes in the same round trip.
    func flush() throws

    /// Forgets what was read and gathered.
    func forget()

    /// Grows with everything gathered that `flush` would write: tells whether a body that failed had changed something.
    var changes: Int { get }
}

/// Gives a unit the connection, the time, and a register for effects outside the database. It lasts as long as its lane.
///
/// A write's body must change nothing outside the database and its unit, because it may run several times, and because its
/// transaction may fail after it has returned. A registered effect runs exactly once or not at all, on the lane's thread, which
/// waits for it. So an effect must only hand work over.
@usableFromInline
package final class PostgresTransaction {
    /// The time when the present write began, by `PostgresOptions.clock`: one time for everything that it writes.
    package private(set) var milliseconds: Int64 = 0
    /// Nil while the server can't be reached: then nothing of a unit runs.
    var current: PostgresConnection?

    private let clock: @Sendable () -> Int64
    private var effects = TransactionEffects()

    init(clock: @escaping @Sendable () -> Int64) {
        self.clock = clock
    }

    /// The lane's connection. Another one after a failure: don't keep it.
    package var connection: PostgresConnection {
        guard let current else { misuse("a unit used its connection outside prepare, a body and flush") }
        return current
    }

    /// Runs `effect` after the commit, before the callers of the transaction's writes get their answers.
    package func afterCommit(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        effects.afterCommit(effect)
    }

    /// Runs `effect` when this write is undone: when its body throws, before it runs again, or when its transaction fails. The
    /// last registered effect comes first.
    package func onRollback(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        effects.onRollback(effect)
    }

    /// Registers that the row with this id changed. `PostgresDatabase.onCommit` gets it after the commit, before the effects.
    package func changed(_ id: Int64) {
        connection.requireOwner()
        effects.changed(id)
    }
}

@available(*, unavailable)
extension PostgresTransaction: Sendable {}

// MARK: - The lane's side

extension PostgresTransaction {
    /// Begins one write.
    func begin() {
        milliseconds = clock()
        effects.begin()
    }

    /// Undoes the present write, and drops its registered effects.
    func undoLast() {
        for effect in effects.takeLast() { effect() }
    }

    /// Undoes all writes of the transaction.
    func undoAll() {
        for effect in effects.takeAll() { effect() }
    }

    /// Runs the effects of the commit.
    func finish(telling watcher: (([Int64]) -> Void)?) {
        let (changes, effects) = effects.takeCommitted()
        if !changes.isEmpty { watcher?(changes) }
        for effect in effects { effect() }
    }
}
