import SystemSupport

/// Why the log of writes grows on: it can't be copied into the file.
package struct LogTrouble: Sendable {
    package let pages: Int
    /// Nil: somebody reads an old state, or another process copies.
    package let reason: SQLError?
}

/// When the writer has its log copied, and what it does with the rest. The writer's thread's own.
struct LogUpkeep {
    private let checkpointer: Checkpointer
    private let checkpointPages: Int
    private let retryMilliseconds: Int
    /// The log's length when a copy was last tried.
    private var triedAt = 0
    /// When one that didn't reach the log's end is tried again.
    private var retryAt: UInt64?
    private var isCopying = false
    private var toldAt: UInt64?

    /// Takes over the connection, which copies.
    init(_ connection: sending Connection, options: DatabaseOptions) throws {
        checkpointPages = max(1, options.walAutocheckpointPages)
        retryMilliseconds = max(0, options.checkpointRetryMilliseconds)
        checkpointer = try Checkpointer(
            connection: connection, remainder: checkpointPages / DatabaseOptions.checkpointRemainder)
    }

    /// After a commit that wrote to the log, which has so many pages now. Has the log copied into the file when it has grown
    /// enough since the last time, in the background. When nearly all is copied, copies the rest here: SQLite begins the log
    /// anew only when no page is left. Where commits are quicker than the copying, waits for it: the log would grow for ever.
    /// - Parameters:
    ///   - connection: the writer's.
    ///   - tell: called when the log can't be copied, once in a while, and with nil when it is again.
    /// - Throws: the error of a sync that failed; see `Displacement.unsynced`.
    mutating func committed(_ pages: Int, on connection: Connection, _ tell: (LogTrouble?) -> Void) throws {
        checkpointer.noticed(pages)
        if pages < triedAt { (triedAt, retryAt) = (0, nil) }  // it was begun anew
        let grown = pages - triedAt
        let isDue = grown >= checkpointPages || retryAt.map { $0 <= MonotonicClock.now() } ?? false
        guard isDue || isCopying else { return }
        switch checkpointer.takeState(waits: isTooLong(grown)) {
        case .busy: return
        case .idle:
            isCopying = isDue
            if isDue { checkpointer.start() }
            return
        case .copied(let copied, let isStopped):
            isCopying = false
            let isMuch = pages - copied >= checkpointPages
            // So much was committed since that the other thread has to go on, but not for ever.
            if isMuch, !isStopped, !isTooLong(pages) { return triedAt = copied }
            do {
                let rest = isMuch && isStopped ? (log: pages, copied: copied) : try connection.checkpoint(truncate: false)
                note(rest.copied < rest.log ? LogTrouble(pages: pages, reason: nil) : nil, at: pages, tell)
            } catch {
                try note(error, at: pages, tell)
            }
        case .failed(let error): try note(error, at: pages, tell)
        }
    }

    private func isTooLong(_ pages: Int) -> Bool { pages / DatabaseOptions.checkpointGrowth >= checkpointPages }

    /// Waits for what is copied in the background: SQLite allows one at a time, and doesn't wait for the other by itself.
    /// - Throws: the error of a sync that failed.
    mutating func settle() throws {
        (isCopying, retryAt) = (false, nil)
        if case .failed(let error as SQLError) = checkpointer.takeState(waits: true), error.isFailedSync { throw error }
    }

    /// The same, for good. Idempotent.
    mutating func close() throws {
        checkpointer.close()
        try settle()
    }

    private mutating func note(_ error: any Error, at pages: Int, _ tell: (LogTrouble?) -> Void) throws {
        let error = error as? SQLError
        if let error, error.isFailedSync { throw error }
        // Another process copies: as good as a reader.
        note(LogTrouble(pages: pages, reason: error?.code.primary == .busy ? nil : error), at: pages, tell)
    }

    private mutating func note(_ trouble: LogTrouble?, at pages: Int, _ tell: (LogTrouble?) -> Void) {
        isCopying = false
        (triedAt, retryAt) = (pages, nil)
        if let trouble {
            let now = MonotonicClock.now()
            retryAt = now + UInt64(retryMilliseconds) * 1_000_000
            let isWorth = trouble.reason != nil || isTooLong(pages)
            let isNews = toldAt.map { now - $0 >= UInt64(DatabaseOptions.logNoticeMilliseconds) * 1_000_000 } ?? true
            guard isWorth, isNews else { return }
            toldAt = now
        } else {
            guard toldAt != nil else { return }
            toldAt = nil
        }
        tell(trouble)
    }
}
