/// Sets the number on the app's icon, after each change of the store's number. It makes one call at a time, and the
/// last has the newest number.
///
/// iOS sets the icon too, from every push, even one that the app never sees. So at the start, and when the app comes to
/// the foreground, this sets the icon only after the server has given the newest number.
public actor BadgeIcon {
    private let store: BadgeStore
    private let set: @Sendable (Int) async -> Void
    private let delivered: @Sendable () async -> [PushPayload]
    private var current: Task<Void, Never>?
    private let observation = Locked<BadgeObservation?>(nil)

    /// - Parameters:
    ///   - set: sets the number of the icon; returns when the icon shows it.
    ///   - delivered: the notifications in the notification center.
    public init(
        _ store: BadgeStore, set: @escaping @Sendable (Int) async -> Void,
        delivered: @escaping @Sendable () async -> [PushPayload] = { [] }
    ) {
        self.store = store
        self.set = set
        self.delivered = delivered
        let observing = store.observe(isIcon: true) { [weak self] _ in Task { await self?.update() } }
        observation.withLock { $0 = observing }
    }

    /// Returns when the icon shows the number that the store had at the call, or a newer one.
    public func update() async {
        let before = current
        let task = Task { [store, set] in
            await before?.value
            await set(store.count)
        }
        current = task
        await task.value
    }

    /// Gives the store the numbers that iOS has shown without the app.
    func notice() async { store.notice(await delivered()) }
}
