import Glibc
import Synchronization

/// Idle read connections, last in first out, so that few of them stay warm. The pool opens one when none is idle: it
/// holds as many as were ever used at the same time.
@usableFromInline
final class ReaderPool: Sendable {
    /// An idle connection. Sendable because the thread that takes it out of the pool is its only owner until it is
    /// back.
    private struct Idle: @unchecked Sendable {
        let connection: Connection
    }

    private struct State {
        var idle: [Idle] = []
        /// Connections that are open, lent or not.
        var open = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    private let files: OpenFiles
    private let options: DatabaseOptions

    init(files: OpenFiles, options: DatabaseOptions) {
        self.files = files
        self.options = options
    }

    /// Takes an idle connection or opens one. While the database's files are displaced, it opens none but waits for one
    /// to come back, as for a lock: a new one would open the files in their place, and SQLite would mix the two.
    @usableFromInline
    func take() throws -> Connection {
        var left = options.busyTimeoutMilliseconds
        while true {
            if let idle = try takeIdle() { return idle }
            guard let displacement = files.displacement else { return try open() }
            guard left > 0, state.withLock({ $0.open > 0 }) else { throw displacement.error }
            usleep(1000)
            left -= 1
        }
    }

    private func open() throws -> Connection {
        let connection = try Connection(path: files.file.path, access: .read, options: options)
        state.withLock { $0.open += 1 }
        return connection
    }

    /// Opens a connection that isn't the pool's; its caller closes it.
    func open(cacheKibibytes: Int32) throws -> Connection {
        if state.withLock({ $0.isClosed }) { throw SQLError.closed }
        if let displacement = files.displacement { throw displacement.error }
        var options = options
        options.readerCacheKibibytes = cacheKibibytes
        return try Connection(path: files.file.path, access: .read, options: options)
    }

    private func takeIdle() throws -> Connection? {
        let idle = try state.withLock { state in
            if state.isClosed { throw SQLError.closed }
            return state.idle.popLast()
        }
        idle?.connection.lend()
        return idle?.connection
    }

    @usableFromInline
    func put(_ connection: Connection) {
        connection.takeBack()
        let idle = Idle(connection: connection)
        let isKept = state.withLock { state in
            if !state.isClosed { state.idle.append(idle) }
            return !state.isClosed
        }
        if !isKept { connection.close() }
    }

    /// Closes the connection after a failure of the database, so that the next reader gets a fresh one. While the files
    /// are displaced it keeps the connection.
    @usableFromInline
    @inline(never)
    func put(_ connection: Connection, after error: any Error) {
        if connection.isInTransaction { connection.rollback() }
        if let error = error as? SQLError, error.code != .displaced {
            state.withLock { $0.open -= 1 }
            connection.close()
        } else {
            put(connection)
        }
    }

    @usableFromInline
    func takeSnapshot() throws -> Connection {
        let connection = try take()
        do {
            try connection.begin(.deferred)
        } catch {
            put(connection, after: error)
            throw error
        }
        return connection
    }

    @usableFromInline
    func putSnapshot(_ connection: Connection) throws {
        do {
            try connection.commit()
        } catch {
            put(connection, after: error)
            throw error
        }
        put(connection)
    }

    /// Closes idle connections; a borrowed one closes when it comes back.
    func close() {
        let idle = state.withLock { state in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for reader in idle { reader.connection.close() }
    }
}
