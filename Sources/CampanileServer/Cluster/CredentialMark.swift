import Synchronization

/// Finds out whether API keys or users' tokens were revoked, by whomever: what was verified before holds no more then.
final class CredentialMark: Sendable {
    private let store: Store
    private let last = Mutex<String?>(nil)

    init(store: Store) { self.store = store }

    /// Returns whether something was revoked since the last look. While the database can't be asked, it returns false, and the
    /// next look finds the revocation.
    func hasChanged() async -> Bool {
        guard let mark = try? await store.read({ try $0.revocations.mark() }) else { return false }
        return last.withLock { last in
            defer { last = mark }
            return last != mark
        }
    }
}
