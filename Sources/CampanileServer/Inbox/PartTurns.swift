import SQLEngine
import Synchronization

/// The error of a call of several transactions that ended before the last of them; what the earlier ones did stays.
struct PartlyDone: Error, CustomStringConvertible {
    /// The database's error; nil when the client is gone.
    let cause: SQLError?
    /// The outcome, and what to do about it: a sentence for the client.
    let outcome: String

    /// True if the same call may go on later.
    var mayPass: Bool { cause.map { $0.isUnavailable || $0.code == .closed } ?? true }
    var description: String { "It was done in part. " + (cause?.description ?? "The client is gone.") }
}

/// The turns of the calls for many users: one part of them at most waits for the writer, so others wait for one part at most, however
/// many calls there are.
final class PartTurns: Sendable {
    private struct State {
        var isTaken = false
        var line: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Does the work when its turn has come. When the database can't be used, all who wait go at once, and find that out themselves.
    /// - Parameter isPart: false for work that waits for nobody.
    func take<Value: Sendable>(if isPart: Bool, _ work: @Sendable () async throws -> Value) async throws -> Value {
        guard isPart else { return try await work() }
        await withCheckedContinuation { turn in
            let isFree = state.withLock { state in
                if state.isTaken { state.line.append(turn) }
                defer { state.isTaken = true }
                return !state.isTaken
            }
            if isFree { turn.resume() }
        }
        do {
            let value = try await work()
            pass(toAll: false)
            return value
        } catch {
            pass(toAll: (error as? SQLError)?.isUnavailable == true)
            throw error
        }
    }

    private func pass(toAll isEverybodysTurn: Bool) {
        let next = state.withLock { state in
            let next = state.line.prefix(isEverybodysTurn ? state.line.count : 1)
            state.line.removeFirst(next.count)
            state.isTaken = !next.isEmpty
            return next
        }
        for turn in next { turn.resume() }
    }
}
