import CPostgres
import Glibc
import SystemSupport

/// A request that was sent to the server and isn't answered yet.
struct PostgresPending {
    enum Kind: Equatable {
        /// The statement of the text at this address, with its number.
        case prepare(UInt, Int, isControl: Bool)
        case statement
        case commit
        /// The end of a pipeline: up to here the server passes over everything after an error.
        case sync
    }

    let kind: Kind
    let sql: SQL
    var hasParameters = false
    /// True if it begins or ends a transaction. Its success doesn't count in `PostgresConnection.answers`.
    var isControl = false
    /// Of a statement that was sent ahead: `PostgresAhead.number`.
    var ahead: Int?
}

/// A statement whose answer comes with that to another one, and waits until it is asked for.
struct PostgresAhead {
    let number: Int
    let sql: SQL
    let arguments: [UInt8]
    let starts: [Int]
    var result: OpaquePointer?
}

/// A statement that the server keeps. The linker gives equal literals one address, so one may have several, for arguments of
/// different types.
struct PostgresStatement {
    let number: Int
    /// Its name, with a NUL.
    let name: [CChar]
    let types: [UInt32]
}

/// The parameters of one statement, in the server's format.
@usableFromInline
struct PostgresArguments {
    @usableFromInline var buffer = PostgresBuffer()
    /// Where each begins; -1 is NULL.
    @usableFromInline var starts: [Int] = []
    @usableFromInline var types: [UInt32] = []

    @usableFromInline
    init() {}

    @inlinable
    mutating func clear() {
        // What one huge statement took isn't kept.
        if buffer.bytes.capacity > 4 << 20 { buffer = PostgresBuffer() }
        buffer.bytes.removeAll(keepingCapacity: true)
        // So that a value without bytes has an address: without one it would be NULL.
        buffer.bytes.append(0)
        starts.removeAll(keepingCapacity: true)
        types.removeAll(keepingCapacity: true)
    }

    @inlinable
    mutating func append<B: PostgresBindable>(_ value: B) throws {
        let start = buffer.count
        types.append(B.postgresType)
        starts.append(try value.appendPostgres(to: &buffer) ? start : -1)
    }

    /// Gives libpq's view of the parameters to `body`.
    func withPointers<R>(
        _ body: (_ count: Int32, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> R
    ) -> R {
        guard !starts.isEmpty else { return body(0, nil, nil, nil) }
        return buffer.bytes.withUnsafeBytes { bytes in
            let base = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = starts.map { start in start < 0 ? nil : base.map { $0 + start } }
            var end = bytes.count
            var lengths = [Int32](repeating: 0, count: starts.count)
            for index in starts.indices.reversed() where starts[index] >= 0 {
                lengths[index] = Int32(end - starts[index])
                end = starts[index]
            }
            // All in the binary format.
            return body(Int32(starts.count), values, lengths, [Int32](repeating: 1, count: starts.count))
        }
    }
}

// MARK: - Sending

extension PostgresConnection {
    /// Sends a statement with the present arguments, without waiting.
    @usableFromInline
    func transmit(_ sql: SQL) throws {
        try requireNoControl(sql)
        try transmit(sql, .statement)
    }

    /// Sends a statement with the present arguments for whoever will ask the same.
    @usableFromInline
    func transmitAhead(_ sql: SQL) throws {
        try transmit(sql)
        dropAhead()
        aheadCount += 1
        pending[pending.count - 1].ahead = aheadCount
        ahead = PostgresAhead(number: aheadCount, sql: sql, arguments: arguments.buffer.bytes, starts: arguments.starts)
    }

    /// The answer that came ahead to the statement with the present arguments; the caller clears it.
    private func takeAhead(_ sql: SQL) -> OpaquePointer? {
        guard let found = ahead, let result = found.result, found.sql.address == sql.address,
            found.starts == arguments.starts, found.arguments == arguments.buffer.bytes
        else { return nil }
        ahead = nil
        return result
    }

    func dropAhead() {
        cpq_clear(ahead?.result)
        ahead = nil
    }

    /// Sends one of the engine's own statements, which begin and end transactions, without waiting.
    func control(_ sql: SQL, _ kind: PostgresPending.Kind = .statement) throws {
        arguments.clear()
        try transmit(sql, kind, isControl: true)
    }

    private func transmit(_ sql: SQL, _ kind: PostgresPending.Kind, isControl: Bool = false) throws {
        guard isOpen else { throw SQLError(code: .connectionLost, sqlState: "08003") }
        guard arguments.buffer.count <= Int(Int32.max) else { throw SQLError(code: .tooBig, sqlState: "54000") }
        let statement = try prepared(sql, isControl: isControl)
        let isSent = arguments.withPointers { count, values, lengths, formats in
            cpq_sendQueryPrepared(handle, statement.name, count, values, lengths, formats, 1)
        }
        guard isSent == 1 else { throw lost(nil) }
        pending.append(PostgresPending(kind: kind, sql: sql, hasParameters: !arguments.starts.isEmpty, isControl: isControl))
    }

    /// The statement of this text: sent to be prepared, if it wasn't.
    private func prepared(_ sql: SQL, isControl: Bool) throws -> PostgresStatement {
        let address = sql.address
        let known = isControl ? controls[address] : statements[address]
        if let fitting = known?.first(where: { $0.types == arguments.types }) { return fitting }
        statementCount += 1
        let name = Array("s\(statementCount)".utf8CString)
        guard cpq_sendPrepare(handle, name, sql.characters, Int32(arguments.types.count), arguments.types) == 1 else {
            throw lost(nil)
        }
        pending.append(
            PostgresPending(kind: .prepare(address, statementCount, isControl: isControl), sql: sql, isControl: isControl))
        let statement = PostgresStatement(number: statementCount, name: name, types: arguments.types)
        if isControl {
            controls[address, default: []].append(statement)
        } else {
            statements[address, default: []].append(statement)
        }
        return statement
    }

    /// A stray COMMIT would answer callers too early.
    private func requireNoControl(_ sql: SQL) throws {
        let isKnown = statements[sql.address] != nil
        guard !isKnown else { return }
        let word = sql.description.drop { $0.isWhitespace }.prefix { $0.isLetter }.uppercased()
        guard Self.controlWords.contains(word) else { return }
        misuse("transactions are begun and ended by PostgresDatabase: \(sql)")
    }

    private static let controlWords: Set<String> = [
        "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE", "COPY",
    ]

    /// Ends the pipeline, so that the server answers everything up to here.
    func synchronise() throws {
        guard isOpen else { throw SQLError(code: .connectionLost, sqlState: "08003") }
        guard cpq_pipelineSync(handle) == 1 else { throw lost(nil) }
        pending.append(PostgresPending(kind: .sync, sql: ""))
        _ = cpq_flush(handle)
    }
}

// MARK: - Waiting

extension PostgresConnection {
    /// Waits for the answers to all that was sent.
    /// - Returns: the last statement's result; the caller clears it.
    /// - Throws: the first error among them.
    @usableFromInline
    func finish() throws -> OpaquePointer {
        try synchronise()
        let deadline = min(MonotonicClock.now() + UInt64(answerMilliseconds) * 1_000_000, deadline)
        var (kept, failure): (OpaquePointer?, SQLError?) = (nil, nil)
        position = 0
        while position < pending.count {
            do {
                try take(pending[position], deadline, &kept, &failure)
            } catch {
                cpq_clear(kept)
                throw lost(error as? SQLError)
            }
            position += 1
        }
        pending.removeAll(keepingCapacity: true)
        position = 0
        if let failure {
            cpq_clear(kept)
            dropAhead()
            if isInTransaction, rollbackCause == nil { rollbackCause = failure }
            throw failure
        }
        guard let kept else { misuse("a wait for the answer to nothing") }
        return kept
    }

    /// The answer to the statement with the present arguments: the one that came ahead, or else the server's.
    @usableFromInline
    func answer(_ sql: SQL) throws -> OpaquePointer {
        if ahead != nil, let result = takeAhead(sql) { return result }
        try transmit(sql)
        return try finish()
    }

    /// Takes the answer to one thing that was sent.
    /// - Throws: when the connection is lost.
    private func take(
        _ entry: PostgresPending, _ deadline: UInt64, _ kept: inout OpaquePointer?, _ failure: inout SQLError?
    ) throws {
        guard let result = try next(deadline) else { throw SQLError(code: .connectionLost, sqlState: "08006") }
        switch cpq_resultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            cpq_clear(result)
            guard entry.kind != .sync else { return }
            throw SQLError(code: .connectionLost, message: "answers out of step", sqlState: "08P01")
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            // The end of the last borrower's snapshot may be answered to the next one.
            if !entry.isControl { answers += 1 }
            note(result, for: entry, &kept)
        case PGRES_PIPELINE_ABORTED:
            forget(entry)
            cpq_clear(result)
        default:
            defer { cpq_clear(result) }
            forget(entry)
            let error = error(of: result, entry)
            if error.code == .connectionLost { throw error }
            answers += 1
            failure = failure ?? error
        }
        // Each statement's results end so.
        while let more = try next(deadline) { cpq_clear(more) }
    }

    private func note(_ result: OpaquePointer, for entry: PostgresPending, _ kept: inout OpaquePointer?) {
        switch entry.kind {
        case .prepare, .sync: return cpq_clear(result)
        case .commit: hasCommitted = String(cString: cpq_cmdStatus(result)) == "COMMIT"
        case .statement: break
        }
        if entry.kind == .statement { changes += Self.changedRows(result) }
        if let number = entry.ahead {
            // Its sender may have ended without asking.
            guard number == ahead?.number else { return cpq_clear(result) }
            ahead?.result = result
            return
        }
        cpq_clear(kept)
        kept = result
    }

    private func error(of result: OpaquePointer, _ entry: PostgresPending) -> SQLError {
        let sql = entry.sql.description.drop { $0.isWhitespace }
        let error = PostgresError.of(result, sql: String(sql), hasParameters: entry.hasParameters)
        // Another program's migration changed what a prepared statement gives: https://postgr.es/c/ce2fee3f
        guard error.sqlState == "0A000" else { return error }
        return SQLError(code: .connectionLost, message: error.message, sql: error.sql, sqlState: error.sqlState)
    }

    /// The server doesn't keep a statement that it couldn't prepare.
    private func forget(_ entry: PostgresPending) {
        guard case .prepare(let address, let number, let isControl) = entry.kind else { return }
        if isControl {
            controls[address]?.removeAll { $0.number == number }
        } else {
            statements[address]?.removeAll { $0.number == number }
        }
    }

    /// The next result; nil at the end of a statement's results.
    /// - Throws: at the deadline.
    func next(_ deadline: UInt64) throws -> OpaquePointer? {
        var isBroken = false
        while true {
            let unsent = cpq_flush(handle)
            // When it is broken, libpq makes a result of that, or has one that came before.
            if isBroken || unsent < 0 || cpq_isBusy(handle) == 0 { return cpq_getResult(handle) }
            try waitForSocket(unsent == 1 ? POLLIN | POLLOUT : POLLIN, until: deadline)
            isBroken = cpq_consumeInput(handle) == 0
        }
    }

    private func waitForSocket(_ events: Int32, until deadline: UInt64) throws {
        while true {
            let now = MonotonicClock.now()
            guard now < deadline else {
                if owesCommit { isOverdue = true } else { cancel() }
                throw SQLError(code: .connectionLost, message: "no answer in time", sqlState: "08006")
            }
            var descriptor = pollfd(fd: cpq_socket(handle), events: Int16(events), revents: 0)
            let milliseconds = min((deadline - now) / 1_000_000 + 1, UInt64(Int32.max))
            if poll(&descriptor, 1, Int32(milliseconds)) > 0 { return }
        }
    }

    /// Asks the server to end what runs, on a thread of its own: that is a connection of its own, and may take long.
    private func cancel() {
        guard let request = cpq_getCancel(handle) else { return }
        let address = UInt(bitPattern: request)
        let ask: @Sendable () -> Void = {
            guard let request = OpaquePointer(bitPattern: address) else { return }
            var reason = [CChar](repeating: 0, count: 256)
            _ = cpq_cancel(request, &reason, Int32(reason.count))
            cpq_freeCancel(request)
        }
        do { try EngineThread.start("sql-cancel", ask) } catch { cpq_freeCancel(request) }
    }

    /// True while a commit was sent and isn't answered. Such a commit is never cancelled: one that waits for a standby would end
    /// as done, and everybody would see what no standby has.
    /// Source: https://www.postgresql.org/docs/15/warm-standby.html#SYNCHRONOUS-REPLICATION-HA
    private var owesCommit: Bool { pending.dropFirst(position).contains { $0.kind == .commit } }

    /// Waits for the answer to an overdue commit, whatever it says, or the end of the connection, and closes it.
    func seeCommitThrough(while isWanted: () -> Bool) {
        defer { close() }
        lend()
        while isWanted(), owesCommit {
            var (kept, failure): (OpaquePointer?, SQLError?) = (nil, nil)
            isOverdue = false
            do {
                try take(pending[position], MonotonicClock.now() + Self.lookNanoseconds, &kept, &failure)
                position += 1
            } catch {
                if !isOverdue { return }
            }
            cpq_clear(kept)
        }
    }

    private static let lookNanoseconds: UInt64 = 1_000_000_000

    /// Closes the connection, because it failed. One whose commit is overdue stays open, for `seeCommitThrough`.
    /// - Returns: what its user is to be told: whether a commit was under way that may have been done.
    func lost(_ cause: SQLError?) -> SQLError {
        let error = cause ?? SQLError(code: .connectionLost, sqlState: "08006")
        let commit = pending.firstIndex { $0.kind == .commit } ?? pending.count
        let isUnknown = isCommitting && !hasCommitted && position <= commit
        // The server's own word for something before the commit: then it won't get there.
        let isRefused = position < commit && error.sqlState?.hasPrefix("08") == false
        if !isOverdue || hasCommitted { close() }
        rollbackCause = error
        return isUnknown && !isRefused ? SQLError(code: .commitUnknown, sqlState: "08007") : error
    }

    static func changedRows(_ result: OpaquePointer) -> Int {
        let tag = UnsafePointer(cpq_cmdStatus(result))
        guard let tag, UInt8(bitPattern: tag.pointee) != UInt8(ascii: "S") else { return 0 }
        return affectedRows(result)
    }

    @usableFromInline
    static func affectedRows(_ result: OpaquePointer) -> Int {
        atol(cpq_cmdTuples(result))
    }
}
