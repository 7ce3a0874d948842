import SQLEngine

/// Tells the nodes of a PostgreSQL database what a command has changed in it, so that they needn't find out by themselves, which takes
/// them two seconds. A hint that can't be sent is dropped.
struct ClusterHints: Sendable {
    private let notifier: PostgresNotifier

    /// Nil on SQLite, whose server sees every change of the file.
    init?(_ store: Store) throws {
        guard case .postgres(let database) = store.base else { return nil }
        let notifier = try PostgresNotifier(database.address, options: database.options, channel: ClusterSignals.channel)
        self.notifier = notifier
        store.onCommit { inboxes in notifier.notify(inboxes.map(\.rawValue)) }
    }

    func pushesAreDue() { notifier.notify([ClusterSignals.Word.pushesAreDue]) }
    func credentialsChanged() { notifier.notify([ClusterSignals.Word.credentialsChanged]) }
    func broadcast() { notifier.notify([ClusterSignals.Word.broadcast]) }

    /// Sends what waits.
    func close() { notifier.close() }
}
