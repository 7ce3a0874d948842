import CSQLite
import Glibc
import Synchronization
import SystemSupport

/// Copies the write-ahead log into the file on a thread and a connection of its own, while the writer goes on.
///
/// Each pass copies the pages committed during the one before, and is shorter. The checkpointer leaves the last few
/// pages to the writer, because SQLite restarts the log only when all of it is in the file. SQLite syncs the file in
/// the pass that reaches the log's end, and so on the writer's thread. The checkpointer syncs the earlier pages itself,
/// so that the writer waits little. A whole checkpoint on the writer's thread, of 8,000 different pages, took 40 to 60
/// ms, half of it waiting for the disk, and delayed all writes.
///
/// A pass begins only after a commit, or a word of the writer's, whose pages aren't in the file yet. SQLite before
/// 3.51.3 may lose pages when a pass begins while the writer restarts the log, and the writer does so only when the
/// file has all of them (https://www.sqlite.org/wal.html#walresetbug). That holds while no other process copies as well.
///
/// Sendable because the connection belongs to the thread, and all that others touch is atomic or behind the monitor.
final class Checkpointer: @unchecked Sendable {
    enum State {
        case idle
        /// Requested, or at work.
        case busy
        /// The number of the log's pages in the file; `isStopped`: a reader of an old state prevents copying the rest.
        case copied(Int, isStopped: Bool)
        case failed(any Error)
    }

    /// How often a copy waits for a reader of an old state, or because SQLite is busy, and how long each time.
    private static let patience = 20
    private static let waitMicroseconds: UInt32 = 5_000

    /// Pages that may be left for the writer.
    private let remainder: Int
    /// Pages in the log after the writer's last commit.
    private let logPages = Atomic<Int>(0)
    private let monitor = ConditionLock()
    private var state = State.idle
    private var isClosing = false
    private var hasFinished = false
    private let connection: Connection

    /// Takes over the connection.
    init(connection: sending Connection, remainder: Int) throws {
        self.connection = connection
        self.remainder = remainder
        // SQLite's checkpoint copies nothing on a connection that has never read. Its settings have already read.
        _ = try connection.dataVersion()
        connection.takeBack()
        try EngineThread.start("sql-checkpoint") { [self] in run() }
    }

    /// Copies the log in the background, unless it already does.
    func start() {
        monitor.withLock {
            guard case .idle = state, !isClosing else { return }
            state = .busy
            monitor.wakeAll()
        }
    }

    /// Takes the number of pages in the log after the writer's commit.
    func noticed(_ pages: Int) { logPages.store(pages, ordering: .relaxed) }

    /// Its progress. Reports a finished copy once.
    /// - Parameter waits: whether to wait for the end of the present copy.
    func takeState(waits: Bool) -> State {
        monitor.withLock {
            while waits, case .busy = state, !hasFinished { monitor.wait() }
            let told = state
            if case .busy = told { return told }
            state = .idle
            return told
        }
    }

    /// Waits for the present copy, and closes the connection. Idempotent.
    func close() {
        monitor.withLock {
            isClosing = true
            monitor.wakeAll()
            while !hasFinished { monitor.wait() }
        }
    }

    private func run() {
        while waitForWork() {
            connection.lend()
            let reached = copy()
            connection.takeBack()
            monitor.withLock {
                state = reached
                monitor.wakeAll()
            }
        }
        connection.close()
        monitor.withLock {
            hasFinished = true
            monitor.wakeAll()
        }
    }

    private var isEnding: Bool { monitor.withLock { isClosing } }

    /// - Returns: false at the end.
    private func waitForWork() -> Bool {
        monitor.withLock {
            while true {
                if isClosing { return false }
                if case .busy = state { return true }
                monitor.wait()
            }
        }
    }

    private func copy() -> State {
        var copied = 0
        var patience = Self.patience
        do {
            while true {
                let known = logPages.load(ordering: .relaxed)
                let pass: (log: Int, copied: Int)
                do {
                    pass = try connection.checkpoint(truncate: false)
                } catch let error as SQLError where error.code.primary == .busy && patience > 0 && !isEnding {
                    // SQLite says so when the pass begins while the writer publishes a commit: one pass of a hundred where
                    // commits follow one another. Or another process copies.
                    patience -= 1
                    usleep(Self.waitMicroseconds)
                    continue
                }
                if pass.copied - copied > remainder { try connection.syncFile() }
                copied = pass.copied
                // Somebody else has restarted the log: the known progress is void.
                if pass.log < known { return .copied(copied, isStopped: false) }
                if copied < pass.log {
                    // Mostly a reader that is about to end.
                    if patience == 0 || isEnding { return .copied(copied, isStopped: true) }
                    patience -= 1
                    usleep(Self.waitMicroseconds)
                } else if logPages.load(ordering: .relaxed) - copied <= remainder {
                    return .copied(copied, isStopped: false)
                }
            }
        } catch {
            // At once: Linux may drop pages that it takes for written, and the writer learns of it only with its next
            // commit. If this fails, the writer does it.
            if (error as? SQLError)?.isFailedSync == true { try? connection.forgetCopied() }
            return .failed(error)
        }
    }
}
