import Synchronization

/// Read connections that wait to be lent, last in first out, so that few of them stay warm. Opened when none waits:
/// there are as many as were ever used at the same time.
@usableFromInline
final class ReaderPool: Sendable {
    /// A connection nobody uses. Sendable because whoever takes it out of the pool is its only owner until it is back.
    private struct Idle: @unchecked Sendable {
        let connection: Connection
    }

    private struct State {
        var idle: [Idle] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let path: String
    private let options: DatabaseOptions

    init(path: String, options: DatabaseOptions) {
        self.path = path
        self.options = options
    }

    @usableFromInline
    func take() throws -> Connection {
        let waiting = try state.withLock { state in
            if state.isClosed { throw SQLError.closed }
            return state.idle.popLast()
        }
        guard let waiting else {
            return try Connection(path: path, access: .read, options: options)
        }
        waiting.connection.lend()
        return waiting.connection
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

    /// After a failure of the database the connection is closed: the next reader gets a fresh one.
    @usableFromInline
    @inline(never)
    func put(_ connection: Connection, after error: any Error) {
        if connection.isInTransaction { connection.rollback() }
        if error is SQLError {
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

    /// Closes what waits; what is lent is closed when it comes back.
    func close() {
        let idle = state.withLock { state in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for reader in idle { reader.connection.close() }
    }
}
