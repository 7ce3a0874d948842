/// Presents one sign-in, however many pages are sent to it.
///
/// Without a signed-in user every page of an app is refused or redirected to the sign-in. The first one presents it; the
/// others wait and load when it is done.
@MainActor
public final class AuthGate {
    private var waiting: [(page: ObjectIdentifier?, reload: @MainActor () -> Void)] = []
    public private(set) var isPresenting = false

    public nonisolated init() {}

    /// - Parameters:
    ///   - page: the page, such as its view controller: a page that comes again replaces its earlier `reload`. nil for
    ///     one that never comes again. The gate doesn't keep it.
    ///   - reload: loads the page; called once after the sign-in.
    /// - Returns: true for the first, which presents the sign-in; false while another page presents it.
    public func mayPresent(for page: AnyObject? = nil, reload: @escaping @MainActor () -> Void = {}) -> Bool {
        let page = page.map(ObjectIdentifier.init)
        if let page { waiting.removeAll { $0.page == page } }
        waiting.append((page, reload))
        guard !isPresenting else { return false }
        isPresenting = true
        return true
    }

    /// Call it when the sign-in has left the screen.
    /// - Parameter signedIn: true loads every page that was sent to it; false means dismissed: the pages wait on, and
    ///   the next one sent to sign-in presents it again.
    public func finish(signedIn: Bool) {
        isPresenting = false
        guard signedIn else { return }
        let reloads = waiting.map(\.reload)
        waiting = []
        for reload in reloads { reload() }
    }
}
