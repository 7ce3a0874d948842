/// The argument of `Database.write`'s closure, valid until the closure returns: the connection, the time, and a
/// register for effects outside the database.
///
/// The closure itself must change nothing outside the database, because it may run twice, and because its transaction
/// may fail after it has returned. A registered effect runs exactly once or not at all, on the writer's thread, which
/// waits for it. So an effect must only hand work over.
package final class Transaction {
    package let connection: Connection
    /// The time when this write began, by `DatabaseOptions.clock`: one time for everything that it writes.
    package private(set) var milliseconds: Int64 = 0

    private let clock: @Sendable () -> Int64
    private var effects = TransactionEffects()

    init(on connection: Connection, clock: @escaping @Sendable () -> Int64) {
        self.connection = connection
        self.clock = clock
    }

    /// Runs `effect` after the commit, before the callers of the transaction's writes get their answers.
    package func afterCommit(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        effects.afterCommit(effect)
    }

    /// Runs `effect` when this write is undone: when its closure throws, before it runs again, or when its transaction
    /// fails. The last registered effect comes first.
    package func onRollback(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        effects.onRollback(effect)
    }

    /// Registers that the row with this id changed. `Database.onCommit` gets it after the commit, before the effects.
    package func changed(_ id: Int64) {
        connection.requireOwner()
        effects.changed(id)
    }
}

@available(*, unavailable)
extension Transaction: Sendable {}

// MARK: - The writer's side

extension Transaction {
    /// Begins one write.
    func begin() {
        connection.lend()
        milliseconds = clock()
        effects.begin()
    }

    /// Ends the present write, whose closure has returned.
    func end() { connection.takeBack() }

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
