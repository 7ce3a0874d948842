import SystemSupport

/// Why the log keeps growing: it can't be copied into the file.
package struct LogTrouble: Sendable {
    package let pages: Int
    /// The error of the copying; nil when a reader of an old state, or another process that copies, prevents it.
    package let reason: SQLError?
}

/// The log's file, when it is longer than any that was begun anew: nobody tells how much of it others have filled.
struct LongLog {
    private let path: String
    private let pageBytes: Int
    private let bytes: Int

    /// - Parameter pageBytes: of the database.
    /// - Returns: nil for a program that leaves the log to another.
    init?(of database: String, _ options: DatabaseOptions, pageBytes: Int) {
        guard options.walAutocheckpointPages < Int(Int32.max), pageBytes > 0 else { return nil }
        path = database + "-wal"
        // A page of the log has a head of 24 bytes (https://www.sqlite.org/fileformat2.html, section 4).
        self.pageBytes = pageBytes + 24
        bytes = options.logBytesKept + options.walAutocheckpointPages * self.pageBytes
    }

    /// About how many pages it holds; nil while it is short.
    var pages: Int? { File.size(path).flatMap { $0 > bytes ? $0 / pageBytes : nil } }
}

/// Decides when the writer has its log copied, and copies the rest. Used on the writer's thread only.
struct LogUpkeep {
    private let checkpointer: Checkpointer
    private let checkpointPages: Int
    private let retryMilliseconds: Int
    /// The log's length at the last attempt to copy.
    private var triedAt = 0
    /// When to retry a copy that didn't reach the log's end.
    private var retryAt: UInt64?
    private var isCopying = false
    private var toldAt: UInt64?

    /// Takes over the connection for copying.
    init(_ connection: sending Connection, options: DatabaseOptions) throws {
        checkpointPages = max(1, options.walAutocheckpointPages)
        retryMilliseconds = max(0, options.checkpointRetryMilliseconds)
        checkpointer = try Checkpointer(
            connection: connection, remainder: checkpointPages / DatabaseOptions.checkpointRemainder)
    }

    /// Call it after a commit that wrote to the log, with the log's pages. Starts copying the log into the file in the
    /// background when it has grown enough since the last time. When nearly all is copied, copies the rest itself:
    /// SQLite restarts the log only when no page is left. If commits are quicker than the copying, waits for it:
    /// otherwise the log would grow for ever.
    /// - Parameters:
    ///   - connection: the writer's.
    ///   - tell: called when the log can't be copied, once in a while, and with nil when it can be again.
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
            // So much was committed since that the other thread must continue, but not for ever.
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

    /// Waits for the background copy: SQLite allows one copy at a time, and doesn't wait for another by itself.
    /// - Throws: the error of a sync that failed.
    mutating func settle() throws {
        (isCopying, retryAt) = (false, nil)
        if case .failed(let error as SQLError) = checkpointer.takeState(waits: true), error.isFailedSync { throw error }
    }

    /// Waits for the background copy as `settle` does, and ends the background thread. Idempotent.
    /// - Throws: the error of a sync that failed.
    mutating func close() throws {
        checkpointer.close()
        try settle()
    }

    private mutating func note(_ error: any Error, at pages: Int, _ tell: (LogTrouble?) -> Void) throws {
        let error = error as? SQLError
        if let error, error.isFailedSync { throw error }
        // Another process copies; treat it like a reader.
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
