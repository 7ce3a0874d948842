import Synchronization

/// The connections whose commits the server hasn't answered in time, mostly because a standby is awaited. Each is kept on a thread of its
/// own until its commit is answered or the server is gone: one that was closed would leave its session behind, and the next would come on top.
final class PostgresOverdue: Sendable {
    private struct State {
        var count = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Why nothing more may be written; nil if it may.
    var refusal: SQLError? {
        let count = state.withLock(\.count)
        guard count >= limit else { return nil }
        let message = "the server hasn't answered \(count) commits, and perhaps waits for a standby"
        return SQLError(code: .busy, message: message, sqlState: "53300")
    }

    /// Takes over a connection, for good.
    func keep(_ connection: PostgresConnection) {
        state.withLock { $0.count += 1 }
        // Nobody else has it any more.
        nonisolated(unsafe) let connection = connection
        let wait: @Sendable () -> Void = { [self] in
            connection.seeCommitThrough { state.withLock { !$0.isClosed } }
            state.withLock { $0.count -= 1 }
        }
        do { try EngineThread.start("sql-overdue", wait) } catch {
            connection.close()
            state.withLock { $0.count -= 1 }
        }
    }

    /// Gives the connections up, within a second. Their commits go on.
    func close() { state.withLock { $0.isClosed = true } }
}
