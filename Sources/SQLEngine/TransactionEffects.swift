/// The changed rows and the effects that the writes of one transaction registered. An effect runs after the commit, or when its
/// write is undone.
struct TransactionEffects {
    private var changes: [Int64] = []
    private var commitEffects: [() -> Void] = []
    private var rollbackEffects: [() -> Void] = []
    /// The number of effects that the earlier writes registered.
    private var kept = (changes: 0, commitEffects: 0, rollbackEffects: 0)

    mutating func afterCommit(_ effect: @escaping () -> Void) { commitEffects.append(effect) }

    mutating func onRollback(_ effect: @escaping () -> Void) { rollbackEffects.append(effect) }

    mutating func changed(_ id: Int64) { changes.append(id) }

    /// Begins one write.
    mutating func begin() {
        kept = (changes.count, commitEffects.count, rollbackEffects.count)
    }

    /// Drops what the present write registered.
    /// - Returns: what is to run because it is undone, in order.
    mutating func takeLast() -> [() -> Void] {
        changes.removeLast(changes.count - kept.changes)
        commitEffects.removeLast(commitEffects.count - kept.commitEffects)
        let undone = rollbackEffects[kept.rollbackEffects...]
        rollbackEffects.removeLast(undone.count)
        return undone.reversed()
    }

    /// Drops what all writes of the transaction registered.
    /// - Returns: what is to run because they are undone, in order.
    mutating func takeAll() -> [() -> Void] {
        kept = (0, 0, 0)
        return takeLast()
    }

    /// - Returns: what is to run after the commit, and the rows that changed.
    mutating func takeCommitted() -> (changes: [Int64], effects: [() -> Void]) {
        defer { self = TransactionEffects() }
        return (changes, commitEffects)
    }
}
