import SQLEngine
import Synchronization

/// Records the damage that was found in a store since it was opened, or since a check found all of it sound. A damaged database
/// answers some calls and fails others, so whoever finds damage notes it here, and `/readyz` asks.
final class Damage: Sendable {
    private struct State {
        var first: SQLError?
        var findings = 0
        /// The findings that were told, each once.
        var told: Set<String> = []
        var tell: (@Sendable (SQLError, _ place: String?) -> Void)?
    }

    private let state = Mutex(State())

    /// The first finding; nil: none is known.
    var first: SQLError? { state.withLock { $0.first } }

    /// Grows with every finding.
    var findings: Int { state.withLock { $0.findings } }

    /// Calls `tell` with each new finding, and where it was, if that is known.
    func onFinding(_ tell: @escaping @Sendable (SQLError, _ place: String?) -> Void) { state.withLock { $0.tell = tell } }

    /// Notes an error that shows damage. Others it passes over.
    func note(_ error: any Error, in place: String? = nil) {
        guard let error = error as? SQLError, error.isDamage else { return }
        let tell = state.withLock { state -> (@Sendable (SQLError, String?) -> Void)? in
            state.first = state.first ?? error
            state.findings += 1
            guard let tell = state.tell, state.told.count < Limits.toldDamages,
                state.told.insert("\(place ?? "") \(error)").inserted
            else { return nil }
            return tell
        }
        tell?(error, place)
    }

    /// Notes what `body` finds.
    func noting<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch {
            note(error)
            throw error
        }
    }

    /// Notes what a `body` that suspends finds.
    nonisolated(nonsending) func noting<T>(_ body: nonisolated(nonsending) () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch {
            note(error)
            throw error
        }
    }

    /// Takes back what was found before a check that found nothing.
    /// - Parameter findings: those that there were when the check began.
    /// - Returns: whether nothing is known any more.
    func forget(upTo findings: Int) -> Bool {
        state.withLock { state in
            guard state.findings == findings else { return false }
            state.first = nil
            state.told = []
            return true
        }
    }
}

extension SQLError {
    /// The database holds what it can't: no repetition helps, and no restart.
    var isDamage: Bool { code.primary == .corrupt || code.primary == .notADatabase }

    /// The sentence that says what to do about damage.
    static let damageRemedy = "The database is damaged: stop the server and restore a backup with `campanile restore`."
}

extension Int64 {
    /// True if it can be a number of the store: JSON's readers keep no greater ones exactly, and sums of such can't overflow.
    var isStorable: Bool { magnitude <= 1 << 53 }
}
