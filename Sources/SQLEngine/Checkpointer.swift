import CSQLite
import Glibc

/// Copies the write-ahead log into the file on a thread and a connection of its own, while the writer goes on.
///
/// What is committed meanwhile is copied in the next pass, which is shorter. The last few pages are left to the writer,
/// because SQLite begins the log anew only when all of it is in the file. On the writer's thread a checkpoint of 8,000
/// pages that were all different took 40 to 60 ms, half of it waiting for the disk, and everybody's writes with it.
///
/// Sendable because the connection belongs to the thread, and all that others touch is behind the monitor.
final class Checkpointer: @unchecked Sendable {
    enum State {
        case idle
        /// Asked for, or at work.
        case busy
        /// So many pages of the log are in the file.
        case copied(Int32)
        case failed
    }

    /// Pages that may be left for the writer.
    private static let remainder: Int32 = 500
    /// Each pass leaves what was committed during it; a writer that is as quick as the disk gets the rest after so many.
    private static let passes = 4

    private let monitor = Monitor()
    private var state = State.idle
    private var isClosing = false
    private var hasFinished = false
    private let connection: Connection

    /// Takes over the connection.
    init(connection: sending Connection) throws {
        self.connection = connection
        // SQLite opens the log with the first read, and a checkpoint without it copies nothing.
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
            let copied = copy()
            connection.takeBack()
            monitor.withLock {
                state = copied.map { .copied($0) } ?? .failed
                monitor.wakeAll()
            }
        }
        connection.close()
        monitor.withLock {
            hasFinished = true
            monitor.wakeAll()
        }
    }

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

    /// - Returns: the pages of the log that are in the file; nil when they couldn't be copied.
    private func copy() -> Int32? {
        var copied: Int32?
        for _ in 0..<Self.passes {
            guard let pass = try? connection.checkpoint(truncate: false) else { return copied }
            let before = copied ?? 0
            copied = pass.copied
            // A reader of an old state keeps the rest from being copied.
            if pass.log - pass.copied <= Self.remainder || pass.copied <= before { break }
        }
        return copied
    }
}
