/// Presents one sign-in, however many tabs are sent to it at once.
///
/// The tabs of an app load together, and without a signed-in user each is redirected to the sign-in page. The first one
/// presents it; the others wait and reload when it is done.
@MainActor
public final class AuthGate {
    private var waiting: [@MainActor () -> Void] = []
    public private(set) var isPresenting = false

    public nonisolated init() {}

    /// - Parameter reload: reloads the tab; called once after the sign-in.
    /// - Returns: true for the first, which presents the sign-in; false while another tab presents it.
    public func mayPresent(reload: @escaping @MainActor () -> Void = {}) -> Bool {
        waiting.append(reload)
        guard !isPresenting else { return false }
        isPresenting = true
        return true
    }

    /// Call it when the sign-in has left the screen.
    /// - Parameter signedIn: true reloads every tab that was sent to it; false means dismissed: the next tab sent to
    ///   sign-in presents it again.
    public func finish(signedIn: Bool) {
        let reloads = waiting
        waiting = []
        isPresenting = false
        guard signedIn else { return }
        for reload in reloads { reload() }
    }
}
