/// Lets one sign-in be presented, however many tabs are sent to it at once.
///
/// The tabs of an app load together, and each is redirected to the sign-in page of a user who isn't signed in. The first
/// that asks presents it; the others wait and are loaded again when it is done.
@MainActor
public final class AuthGate {
    private var waiting: [@MainActor () -> Void] = []
    public private(set) var isPresenting = false

    public nonisolated init() {}

    /// - Parameter reload: loads the tab again, called once after the sign-in.
    /// - Returns: true for the first, which presents the sign-in; false while another one's stands.
    public func mayPresent(reload: @escaping @MainActor () -> Void = {}) -> Bool {
        waiting.append(reload)
        guard !isPresenting else { return false }
        isPresenting = true
        return true
    }

    /// The sign-in is off the screen.
    /// - Parameter signedIn: true loads every tab that was sent to it again; false: dismissed, and the next tab that is sent
    ///   to sign-in presents it anew.
    public func finish(signedIn: Bool) {
        let reloads = waiting
        waiting = []
        isPresenting = false
        guard signedIn else { return }
        for reload in reloads { reload() }
    }
}
