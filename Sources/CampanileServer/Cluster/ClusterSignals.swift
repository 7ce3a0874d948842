import CampanileCore
import Logging
import SQLEngine

/// Tells the other nodes what has been committed here, and hears it from them. Only hints: a node that hears nothing finds
/// everything by itself, a few seconds later.
final class ClusterSignals: Sendable {
    /// The subjects that a hint may have, beside inboxes.
    enum Word {
        static let pushesAreDue: Int64 = 0
        static let credentialsChanged: Int64 = -1
        static let broadcast: Int64 = -2
    }

    /// A node's reactions to the hints that it hears.
    struct Hearer: Sendable {
        let inboxes: @Sendable ([InboxID]) -> Void
        let pushesAreDue: @Sendable () -> Void
        let credentialsChanged: @Sendable () -> Void
        let broadcast: @Sendable () -> Void
        /// Called when hints may have been missed.
        let anything: @Sendable () -> Void
    }

    static let channel = "campanile"

    private let notifier: PostgresNotifier
    private let listener: PostgresListener

    init(_ address: PostgresAddress, options: PostgresOptions, _ hearer: Hearer, logger: Logger) throws {
        notifier = try PostgresNotifier(address, options: options, channel: Self.channel)
        listener = try PostgresListener(address, options: options, channel: Self.channel) { event in
            switch event {
            case .payload(let text): Self.hear(text, hearer)
            case .connected: hearer.anything()
            case .lost(let error):
                logger.notice("The database's hints don't come at the moment.", metadata: ["error": "\(error)"])
            case .refused(let error):
                logger.notice(
                    "The database's address takes no LISTEN. Open pages hear of other nodes' changes a few seconds later.",
                    metadata: ["error": "\(error)"])
            }
        }
    }

    func changed(_ inboxes: [InboxID]) { notifier.notify(inboxes.map(\.rawValue)) }
    func pushesAreDue() { notifier.notify([Word.pushesAreDue]) }
    func credentialsChanged() { notifier.notify([Word.credentialsChanged]) }
    func broadcast() { notifier.notify([Word.broadcast]) }

    func close() {
        listener.close()
        notifier.close()
    }

    private static func hear(_ payload: String, _ hearer: Hearer) {
        var inboxes: [InboxID] = []
        for number in payload.split(separator: ",").compactMap({ Int64($0) }) {
            switch number {
            case Word.pushesAreDue: hearer.pushesAreDue()
            case Word.credentialsChanged: hearer.credentialsChanged()
            case Word.broadcast: hearer.broadcast()
            default: inboxes.append(InboxID(number))
            }
        }
        if !inboxes.isEmpty { hearer.inboxes(inboxes) }
    }
}
