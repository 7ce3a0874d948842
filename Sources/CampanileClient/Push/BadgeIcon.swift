/// Sets the number on the app's icon, after each change of the store's number. Two settings never overtake each other: the
/// last that is made is of the newest number.
public actor BadgeIcon {
    private let store: BadgeStore
    private let set: @Sendable (Int) async -> Void
    private var current: Task<Void, Never>?
    private var observation: BadgeObservation?

    /// - Parameter set: sets the number of the icon; returns when it stands there.
    public init(_ store: BadgeStore, set: @escaping @Sendable (Int) async -> Void) {
        self.store = store
        self.set = set
        Task { await self.observe() }
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

    private func observe() {
        observation = store.observe { [weak self] _ in Task { await self?.update() } }
    }
}
