import CampanileCore
import Logging
import SQLEngine
import Synchronization

/// The calls for many users that were begun. Each goes on in a task of its own, whatever becomes of its request, and all take
/// turns: one part of them at most waits for the writer, so others wait for one part at most, however many calls there are.
///
/// While the database can't be written they are tried again, and requests wait for them only so long. Another error ends a call
/// until the next start. The key of a call stays taken until it is done.
final class LargeCalls: Sendable {
    /// Does the next part of a call, and commits it.
    typealias Part = @Sendable (_ call: LargeCall, _ done: [Recipient]) async throws -> [Recipient]

    /// A request that waits for its call.
    private struct Waiter {
        let continuation: CheckedContinuation<[Recipient], any Error>
        /// Whether its call went on since somebody looked.
        var moved = true
    }

    private struct State {
        var isTurnTaken = false
        /// Who waits for a turn.
        var line: [CheckedContinuation<Void, Never>] = []
        /// The calls are numbered as they come here: the id of one that is done may be another's next.
        var lastNumber = 0
        var runs: [Int: Task<Void, Never>] = [:]
        var waiters: [Int: Waiter] = [:]
        /// The calls that are this process' to finish, by their ids: how often each had been taken over. (SQLite has no such
        /// calls.)
        var held: [Int64: Int64] = [:]
        /// The calls whose last try failed.
        var failing: Set<Int> = []
        /// Ends requests that wait too long, as long as a call fails.
        var watch: Task<Void, Never>?
        var isStopping = false
    }

    private let state = Mutex(State())
    private let idempotency: Idempotency
    private let pause: Duration
    private let patience: Duration
    private let logger: Logger

    init(idempotency: Idempotency, pause: Duration, patience: Duration, logger: Logger) {
        self.idempotency = idempotency
        self.pause = pause
        self.patience = patience
        self.logger = logger
    }

    // MARK: - Turns

    /// Does the work when its turn has come.
    private func takeTurn<Value: Sendable>(_ work: @Sendable () async throws -> Value) async rethrows -> Value {
        await withCheckedContinuation { turn in
            let isFree = state.withLock { state in
                if state.isTurnTaken { state.line.append(turn) }
                defer { state.isTurnTaken = true }
                return !state.isTurnTaken
            }
            if isFree { turn.resume() }
        }
        defer { passTurn() }
        return try await work()
    }

    /// Begins a call when its turn has come. While the others can't go on nobody waits for them: it may be refused at once.
    func begin<Value: Sendable>(_ work: @Sendable () async throws -> Value) async throws -> Value {
        let isInTrouble = state.withLock { !$0.failing.isEmpty }
        return isInTrouble ? try await work() : try await takeTurn(work)
    }

    private func passTurn() {
        let next = state.withLock { state in
            state.isTurnTaken = !state.line.isEmpty
            return state.line.isEmpty ? nil : state.line.removeFirst()
        }
        next?.resume()
    }

    // MARK: - Whose calls

    /// Notes that this process will finish a call, which the transaction begins or takes over. If its commit's answer is lost,
    /// nobody here has the call.
    func hold(_ call: LargeCall, from transaction: any StoreTransaction) {
        state.withLock { $0.held[call.id] = call.takeovers }
        transaction.onRollback { [self] in letGo(call) }
    }

    /// Whether this process finishes the call, or has failed with it and leaves it to another start.
    func holds(_ holder: LargeCall.Holder) -> Bool { state.withLock { $0.held[holder.call] == holder.takeovers } }

    private func letGo(_ call: LargeCall) {
        state.withLock { state in
            if state.held[call.id] == call.takeovers { state.held[call.id] = nil }
        }
    }

    // MARK: - Calls

    /// Goes on with a call and waits for its end.
    /// - Throws: `LargeCall.LeftAlone` when it can't go on for long, or the server stops; the error that ended it.
    func finish(_ begun: LargeCall.Unfinished, by part: @escaping Part) async throws -> [Recipient] {
        try await withCheckedThrowingContinuation { continuation in
            if run(begun, by: part, for: Waiter(continuation: continuation)) == nil {
                continuation.resume(throwing: LargeCall.LeftAlone())
            }
        }
    }

    /// The same for calls whose requests are no more.
    func finish(_ unfinished: [LargeCall.Unfinished], by part: @escaping Part) async {
        for run in unfinished.compactMap({ run($0, by: part, for: nil) }) { await run.value }
    }

    /// - Returns: nil when the server stops.
    private func run(_ begun: LargeCall.Unfinished, by part: @escaping Part, for waiter: Waiter?) -> Task<Void, Never>? {
        state.withLock { state in
            guard !state.isStopping else { return nil }
            state.lastNumber += 1
            let number = state.lastNumber
            state.waiters[number] = waiter
            let run = Task { await goOn(begun, number, by: part) }
            state.runs[number] = run
            return run
        }
    }

    private func goOn(_ begun: LargeCall.Unfinished, _ number: Int, by part: Part) async {
        let (call, users) = (begun.call, begun.call.new.userIDs.count)
        var done = begun.done
        defer { state.withLock { $0.runs[number] = nil } }
        do {
            while done.count < users { done += try await next(number) { [done] in try await part(call, done) } }
        } catch {
            let isElsewhere = error is LargeCall.TakenOver
            if isElsewhere { letGo(call) }
            // The database has the key until the call is done.
            if isElsewhere, let key = call.key { idempotency.release(key.text, producer: key.producer) }
            end(number, .failure(isStop(error) || isElsewhere ? LargeCall.LeftAlone() : error))
            guard !isStop(error) else { return }
            guard !isElsewhere else {
                return logger.notice(
                    "Another node goes on with a call for many users.",
                    metadata: ["done": "\(done.count)", "users": "\(users)"])
            }
            logger.error(
                "A call for many users failed; the next start tries again.",
                metadata: ["error": "\(error)", "done": "\(done.count)", "users": "\(users)"])
            return
        }
        letGo(call)
        // Before the answer, which may make the producer repeat the call.
        if let key = call.key { idempotency.release(key.text, producer: key.producer) }
        guard !end(number, .success(done)) else { return }
        logger.notice(
            "A call for many users is finished; its request had ended before.",
            metadata: ["users": "\(users)", "left": "\(users - begun.done.count)"])
    }

    /// Tries until a part is done.
    private func next(_ number: Int, _ part: @Sendable () async throws -> [Recipient]) async throws -> [Recipient] {
        while true {
            do {
                let some = try await takeTurn {
                    try Task.checkCancellation()
                    return try await part()
                }
                noteMove(of: number)
                return some
            } catch let error as SQLError where error.isUnavailable {
                note(error, of: number)
                try await Task.sleep(for: pause)
            }
        }
    }

    private func isStop(_ error: any Error) -> Bool {
        error is CancellationError || (error as? SQLError)?.code == .closed
    }

    /// - Returns: whether a request got the result.
    @discardableResult
    private func end(_ number: Int, _ result: Result<[Recipient], any Error>) -> Bool {
        let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
        settle(number)
        waiter?.continuation.resume(with: result)
        return waiter != nil
    }

    // MARK: - Trouble

    /// Logs it, unless another call is in trouble already.
    private func note(_ error: SQLError, of number: Int) {
        let isFirst = state.withLock { state in
            defer { state.failing.insert(number) }
            guard state.failing.isEmpty, !state.isStopping else { return false }
            for waiting in state.waiters.keys { state.waiters[waiting]?.moved = false }
            state.watch = Task { while (try? await Task.sleep(for: patience)) != nil { leaveAlone() } }
            return true
        }
        guard isFirst else { return }
        logger.error(
            "Calls for many users can't go on now; the server tries again until they do.", metadata: ["error": "\(error)"])
    }

    private func noteMove(of number: Int) {
        state.withLock { $0.waiters[number]?.moved = true }
        settle(number)
    }

    /// The call isn't in trouble any more.
    private func settle(_ number: Int) {
        let watch = state.withLock { state -> Task<Void, Never>? in
            guard state.failing.remove(number) != nil, state.failing.isEmpty, !state.isStopping else { return nil }
            defer { state.watch = nil }
            return state.watch
        }
        guard let watch else { return }
        watch.cancel()
        logger.notice("No call for many users is held up any more.")
    }

    /// Ends the requests whose calls haven't gone on since the last time.
    private func leaveAlone() {
        let left = state.withLock { state in
            let left = state.waiters.filter { !$0.value.moved }
            for waiting in state.waiters.keys { state.waiters[waiting]?.moved = false }
            for number in left.keys { state.waiters[number] = nil }
            return left
        }
        for waiter in left.values { waiter.continuation.resume(throwing: LargeCall.LeftAlone()) }
    }

    /// Leaves all calls to the next start, each after the part that it is at.
    func stop() async {
        let (runs, watch) = state.withLock { state in
            state.isStopping = true
            return (Array(state.runs.values), state.watch)
        }
        watch?.cancel()
        for run in runs { run.cancel() }
        for run in runs { await run.value }
    }
}
