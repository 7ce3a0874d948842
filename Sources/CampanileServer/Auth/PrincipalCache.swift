import CampanileCore
import Glibc
import Synchronization

/// Verified bearer tokens, so that a hot read neither checks a signature nor waits for anybody. Bounded in number and in
/// bytes; an entry ends with its token; everything is forgotten when another process changed the database, which is how a
/// revocation arrives.
///
/// An entry is found by a hash with a seed of this process, and then compared byte by byte, so that no collision can lend
/// one user's name to another.
final class PrincipalCache: Sendable {
    private struct Entry: Sendable {
        let token: [UInt8]
        let principal: Principal
        let expiresAt: Timestamp
    }

    private struct State: Sendable {
        var entries: [Int: Entry] = [:]
        /// Bytes of the tokens.
        var bytes = 0
        /// Forgotten and not freed yet.
        var forgotten: [[Int: Entry]] = []
        /// The number of times that everything was forgotten.
        var generation = 0

        mutating func clear() {
            entries.removeAll(keepingCapacity: true)
            bytes = 0
        }
    }

    private let state = Mutex(State())
    private let capacity: Int
    private let byteCapacity: Int

    /// - Parameters:
    ///   - capacity: tokens that are remembered.
    ///   - bytes: bytes of them.
    init(capacity: Int, bytes: Int) {
        self.capacity = capacity
        byteCapacity = bytes
    }

    func principal(for token: UnsafeRawBufferPointer, now: Timestamp) -> Principal? {
        let key = PrincipalCache.hash(token)
        return state.withLock { state in
            guard let entry = state.entries[key], entry.token.withUnsafeBytes({ PrincipalCache.equal($0, token) }),
                entry.expiresAt > now
            else { return nil }
            return entry.principal
        }
    }

    /// To be asked before a token is verified: what was found before everything was forgotten is not remembered after it.
    var generation: Int { state.withLock { $0.generation } }

    func remember(_ principal: Principal, for token: [UInt8], until expiresAt: Timestamp, generation: Int) {
        let key = token.withUnsafeBytes(PrincipalCache.hash)
        state.withLock { state in
            guard state.generation == generation else { return }
            if let old = state.entries.removeValue(forKey: key) { state.bytes -= old.token.count }
            // Starting over is rare and costs each token one verification; the order of use would cost every request.
            if state.entries.count >= capacity || state.bytes + token.count > byteCapacity { state.clear() }
            guard token.count <= byteCapacity else { return }
            state.entries[key] = Entry(token: token, principal: principal, expiresAt: expiresAt)
            state.bytes += token.count
        }
    }

    /// Nothing that was found before is found again. The memory is freed on another thread: the writer's calls this, and to free
    /// 65,536 entries takes longer than a write.
    func forgetAll() {
        let isFirst = state.withLock { state in
            state.generation += 1
            guard !state.entries.isEmpty else { return false }
            state.forgotten.append(state.entries)
            state.entries = [:]
            state.bytes = 0
            return state.forgotten.count == 1
        }
        if isFirst { Task { self.free() } }
    }

    private func free() {
        var forgotten = state.withLock { state in
            defer { state.forgotten = [] }
            return state.forgotten
        }
        forgotten.removeAll()
    }

    private static func hash(_ token: UnsafeRawBufferPointer) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: token)
        return hasher.finalize()
    }

    private static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count, let one = left.baseAddress, let other = right.baseAddress else { return false }
        return memcmp(one, other, left.count) == 0
    }
}
