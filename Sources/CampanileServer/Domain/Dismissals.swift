import CampanileCore

/// The notifications of a device that are to leave its notification centre, because they were read, deleted or withdrawn elsewhere.
struct Dismissals: Sendable, Equatable {
    /// Notifications to take away: some, and one with everything older.
    struct Part: Sendable, Equatable {
        var through: UUIDv7?
        /// The ids in the order in which they were handled. `through` may cover some.
        var ids: [UUIDv7] = []

        var isEmpty: Bool { through == nil && ids.isEmpty }
    }

    /// No push that was accepted named these.
    private(set) var owed = Part()
    /// A badge push named these, but iOS may not have woken the app for it: alerts name them again, as they run the app's notification
    /// service extension.
    private(set) var sent = Part()

    /// A notification centre shows no more of one app.
    static let mostKept = 100

    var isEmpty: Bool { owed.isEmpty && sent.isEmpty }

    /// The last notification that is to leave with everything older.
    var through: UUIDv7? { [owed.through, sent.through].compactMap(\.self).max() }

    /// Notes one that was handled.
    mutating func owe(_ id: UUIDv7) {
        sent.remove([id])
        owed.add(id)
    }

    /// Notes that one and everything older was handled.
    mutating func oweThrough(_ id: UUIDv7) {
        owed.cover(id)
        sent.ids.removeAll { $0 <= id }
    }

    /// Returns whether any of some notifications is named by its id.
    func name(any ids: [UUIDv7]) -> Bool {
        ids.contains { owed.ids.contains($0) || sent.ids.contains($0) }
    }

    /// Returns whether one is to leave.
    func covers(_ id: UUIDv7) -> Bool { through.map { $0 >= id } == true || name(any: [id]) }

    /// Names one by its id that is to leave with a newer one.
    mutating func nameCovered(_ id: UUIDv7) {
        if let through = owed.through, through >= id {
            sent.remove([id])
            owed.insert(id)
        } else if let through = sent.through, through >= id {
            sent.insert(id)
        }
    }

    /// Forgets some that the device doesn't show.
    mutating func forget(_ ids: some Collection<UUIDv7>) {
        owed.remove(ids)
        sent.remove(ids)
    }

    /// One is unread again, and stays.
    /// - Parameter newer: those after it that the device may show and that were handled, in order.
    mutating func keep(_ id: UUIDv7, newer: [UUIDv7]) {
        forget([id])
        owed.end(before: id, keeping: newer)
        sent.end(before: id, keeping: newer)
        sent.remove(owed.ids)
    }

    /// The device shows none of those up to one: nothing is pushed for their sake. An alert of theirs may be on its way still.
    /// - Parameter isNamedByAlerts: whether the next alert names them.
    mutating func showsNothing(through id: UUIDv7, isNamedByAlerts: Bool) {
        guard owed.through == id else { return }
        owed.through = nil
        owed.ids.removeAll { $0 <= id }
        if isNamedByAlerts { sent.cover(id) }
    }

    /// The notifications that the next push names; nil: none.
    /// - Parameter isAlert: whether it names again what a badge push named.
    func next(isAlert: Bool) -> Dismissal? {
        if let through = owed.through { return .through(max(through, sent.through ?? .least)) }
        if !owed.ids.isEmpty { return .ids(Array((owed.ids + sent.ids).prefix(Dismissal.mostIDs))) }
        guard isAlert else { return nil }
        if let through = sent.through { return .through(through) }
        return sent.ids.isEmpty ? nil : .ids(Array(sent.ids.prefix(Dismissal.mostIDs)))
    }

    /// The code that reads what a push names.
    enum Reader: Sendable {
        /// The app's, whatever happens.
        case app
        /// The app's, if iOS wakes it.
        case appIfWoken
        /// The notification service extension's, if the app has one.
        case appWithExtension
        /// The system shows the push by itself.
        case nobody
    }

    /// A push that named some of them was accepted.
    mutating func accepted(_ dismissal: Dismissal, by reader: Reader) {
        switch reader {
        case .app:
            owed.drop(dismissal)
            sent.drop(dismissal)
        case .appIfWoken:
            let named = owed.common(dismissal, and: sent)
            owed.drop(dismissal)
            sent.drop(dismissal)
            if let through = named.through { sent.cover(through) }
            for id in named.ids { sent.add(id) }
        // A badge push names the owed ones still: an app without the extension is woken for that.
        case .appWithExtension: sent.drop(dismissal)
        case .nobody: break
        }
    }
}

extension Dismissals.Part {
    fileprivate mutating func add(_ id: UUIDv7) {
        if through.map({ id > $0 }) ?? true { insert(id) }
    }

    fileprivate mutating func insert(_ id: UUIDv7) {
        guard !ids.contains(id) else { return }
        if ids.count == Dismissals.mostKept { ids.removeFirst() }
        ids.append(id)
    }

    fileprivate mutating func cover(_ id: UUIDv7) {
        through = through.map { max($0, id) } ?? id
    }

    fileprivate mutating func remove(_ handled: some Collection<UUIDv7>) {
        if !ids.isEmpty { ids.removeAll { handled.contains($0) } }
    }

    fileprivate mutating func drop(_ dismissal: Dismissal) {
        switch dismissal {
        case .ids(let named): remove(named)
        case .through(let id):
            ids.removeAll { $0 <= id }
            if let known = through, known <= id { through = nil }
        }
    }

    /// Returns those of the two parts that a push named: one that was marked unread meanwhile is in neither.
    fileprivate func common(_ dismissal: Dismissal, and other: Self) -> Self {
        switch dismissal {
        case .ids(let named): Self(ids: named.filter { ids.contains($0) || other.ids.contains($0) })
        case .through(let id): Self(through: [through, other.through].compactMap(\.self).max().map { min($0, id) })
        }
    }

    /// One has to stay, so what covers it ends before it, and newer ones are named.
    fileprivate mutating func end(before id: UUIDv7, keeping newer: [UUIDv7]) {
        guard let known = through, known >= id else { return }
        through = id.predecessor
        for other in newer where other > id && other <= known { add(other) }
    }
}

extension Dismissals {
    /// Its text in the database: the two parts with a semicolon between them, each a list of ids with commas between them, the first of
    /// which may be `through:` and an id. Nil: there is nothing.
    var text: String? {
        isEmpty ? nil : [owed, sent].map(\.text).joined(separator: ";")
    }

    /// - Returns: nil for a text that no `text` is.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false)
        guard parts.count == 2, let owed = Part(parts[0]), let sent = Part(parts[1]) else { return nil }
        self.owed = owed
        self.sent = sent
    }
}

extension Dismissals.Part {
    fileprivate static let throughPrefix = "through:"

    fileprivate var text: String {
        ((through.map { [Self.throughPrefix + $0.description] } ?? []) + ids.map(\.description)).joined(separator: ",")
    }

    fileprivate init?(_ text: some StringProtocol) {
        var words = text.split(separator: ",")[...]
        if let first = words.first, first.hasPrefix(Self.throughPrefix) {
            guard let id = UUIDv7(first.dropFirst(Self.throughPrefix.count)) else { return nil }
            through = id
            words = words.dropFirst()
        }
        for word in words {
            guard let id = UUIDv7(word) else { return nil }
            ids.append(id)
        }
    }
}
