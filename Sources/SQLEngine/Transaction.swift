/// What `Database.write` gives to its closure, until the closure returns: the connection, the time, and a place for what follows
/// from the write outside the database.
///
/// Nothing outside the database may be done by the closure itself, because it may be run twice, and because its transaction may
/// fail after it has returned. An effect that is registered here is done exactly once or not at all, on the writer's thread, which
/// waits for it: an effect only hands over.
package final class Transaction {
    package let connection: Connection
    /// When this write began, by `DatabaseOptions.clock`: one time for everything that it writes.
    package private(set) var milliseconds: Int64 = 0

    private let clock: @Sendable () -> Int64
    private var changes: [Int64] = []
    private var commitEffects: [() -> Void] = []
    private var rollbackEffects: [() -> Void] = []
    /// How much the writes before the present one registered.
    private var kept = (changes: 0, commitEffects: 0, rollbackEffects: 0)

    init(on connection: Connection, clock: @escaping @Sendable () -> Int64) {
        self.connection = connection
        self.clock = clock
    }

    /// Does `effect` after the commit, before the caller of any write in the transaction gets its answer.
    package func afterCommit(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        commitEffects.append(effect)
    }

    /// Does `effect` when this write is undone: when its closure throws, when it is about to be run again, or when its transaction
    /// fails. The last that was registered comes first.
    package func onRollback(_ effect: @escaping () -> Void) {
        connection.requireOwner()
        rollbackEffects.append(effect)
    }

    /// Registers that the row with this id changed: `Database.onCommit` is told after the commit, before the effects.
    package func changed(_ id: Int64) {
        connection.requireOwner()
        changes.append(id)
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
        kept = (changes.count, commitEffects.count, rollbackEffects.count)
    }

    /// The closure of the present write has returned.
    func end() { connection.takeBack() }

    /// Undoes the present write: what it registered is dropped.
    func undoLast() {
        changes.removeLast(changes.count - kept.changes)
        commitEffects.removeLast(commitEffects.count - kept.commitEffects)
        let undone = rollbackEffects[kept.rollbackEffects...]
        rollbackEffects.removeLast(undone.count)
        for effect in undone.reversed() { effect() }
    }

    /// Undoes all writes of the transaction.
    func undoAll() {
        kept = (0, 0, 0)
        undoLast()
    }

    /// Does what follows from the commit.
    func finish(telling watcher: (([Int64]) -> Void)?) {
        let (changes, effects) = (changes, commitEffects)
        self.changes = []
        commitEffects = []
        rollbackEffects = []
        kept = (0, 0, 0)
        if !changes.isEmpty { watcher?(changes) }
        for effect in effects { effect() }
    }
}
