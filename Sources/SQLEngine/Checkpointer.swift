import CSQLite
import Glibc
import Synchronization
import SystemSupport

/// Copies the write-ahead log into the file on a thread and a connection of its own, while the writer goes on.
///
/// What is committed meanwhile is copied in the next pass, which is shorter. The last few pages are left to the writer,
/// because SQLite begins the log anew only when all of it is in the file. SQLite syncs the file in the pass that reaches the
/// log's end, and so on the writer's thread; what was copied before is synced here, so that the writer has little to wait
/// for. On its thread a checkpoint of 8,000 pages that were all different took 40 to 60 ms, half of it waiting for the
/// disk, and everybody's writes with it.
///
/// A pass is begun only after a commit, or the writer's word, whose pages aren't in the file. SQLite before 3.51.3 may lose
/// pages where a pass begins while the writer begins the log anew, which it does only when all of them are
/// (https://www.sqlite.org/wal.html#walresetbug).
///
/// Sendable because the connection belongs to the thread, and all that others touch is atomic or behind the monitor.
final class Checkpointer: @unchecked Sendable {
    enum State {
        case idle
        /// Asked for, or at work.
        case busy
        /// So many pages of the log are in the file; `isStopped`: a reader of an old state keeps the rest from being copied.
        case copied(Int, isStopped: Bool)
        case failed(any Error)
    }

    /// How often a reader of an old state is waited for, and how long each time.
    private static let patience = 20
    private static let readerMicroseconds: UInt32 = 5_000

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
        // On a connection that has never read, SQLite's checkpoint copies nothing. Its settings read already.
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

    /// The writer has committed: so many pages are in the log.
    func noticed(_ pages: Int) { logPages.store(pages, ordering: .relaxed) }

    /// How far it is; what it has ended is told once.
    /// - Parameter waits: whether to wait for the end of what it does.
    func takeState(waits: Bool) -> State {
        monitor.withLock {
            while waits, case .busy = state, !hasFinished { monitor.wait() }
            let told = state
            if case .busy = told { return told }
            state = .idle
            return told
        }
    }

    /// Lets it end what it is doing, and closes its connection. Idempotent.
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
                let pass = try connection.checkpoint(truncate: false)
                if pass.copied - copied > remainder { try connection.syncFile() }
                copied = pass.copied
                // Somebody else has begun the log anew: what is known of it is over.
                if pass.log < known { return .copied(copied, isStopped: false) }
                if copied < pass.log {
                    // A reader that is about to end, mostly.
                    if patience == 0 || isEnding { return .copied(copied, isStopped: true) }
                    patience -= 1
                    usleep(Self.readerMicroseconds)
                } else if logPages.load(ordering: .relaxed) - copied <= remainder {
                    return .copied(copied, isStopped: false)
                }
            }
        } catch {
            // At once: Linux may let go of pages that it takes for written, and the writer hears of it with its next commit.
            // What can't be done here, the writer does.
            if (error as? SQLError)?.isFailedSync == true { try? connection.forgetCopied() }
            return .failed(error)
        }
    }
}
