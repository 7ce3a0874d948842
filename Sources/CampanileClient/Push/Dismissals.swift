import Foundation

/// The notifications of this app that the phone shows: those in the notification center. `.system` is iOS's.
public struct ShownNotifications: Sendable {
    /// One of them.
    public struct Notification: Hashable, Sendable {
        /// The name by which iOS removes it: the push's `apns-collapse-id`.
        public let identifier: String
        public let payload: PushPayload

        public init(identifier: String, payload: PushPayload) {
            self.identifier = identifier
            self.payload = payload
        }

        /// The id of its entry: the payload's, or else its name. Nil for a notification that isn't Campanile's.
        var id: String? { [payload.id, identifier].lazy.compactMap(\.self).first(where: PushPayload.isID) }
    }

    public var delivered: @Sendable () async -> [Notification]
    /// Removes the notifications with these names.
    public var remove: @Sendable (_ identifiers: [String]) -> Void

    public init(
        delivered: @escaping @Sendable () async -> [Notification], remove: @escaping @Sendable (_ identifiers: [String]) -> Void
    ) {
        self.delivered = delivered
        self.remove = remove
    }
}

/// The dismissals of one session of `BadgeRecord`: another user's alerts may be older than it, and unread.
struct DismissalRecord: Codable, Equatable {
    static let kept = 200

    var session = 0
    /// The dismissed ids heard last, the latest at the end.
    var ids: [String] = []
    /// The greatest `dismissedThrough`: this entry and everything older is dismissed.
    var through: String?
    /// The swipes that are to read an entry, and that the server doesn't know of yet.
    var swiped: [String] = []

    init(session: Int) { self.session = session }

    /// - Parameter text: nil, a text that isn't a record's, and one of another session make an empty record.
    init(text: String?, session: Int) {
        let stored = text.flatMap { try? JSONDecoder().decode(DismissalRecord.self, from: Data($0.utf8)) }
        self = stored.flatMap { $0.session == session ? $0 : nil } ?? DismissalRecord(session: session)
    }

    var text: String? { (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } }

    var isEmpty: Bool { self == DismissalRecord(session: session) }

    func covers(_ id: String) -> Bool {
        ids.contains(id) || swiped.contains(id) || through.map { PushPayload.isID(id) && id <= $0 } ?? false
    }

    mutating func dismiss(_ new: [String], through newest: String? = nil) {
        DismissalRecord.keep(new, in: &ids)
        through = [through, newest].compactMap(\.self).max()
    }

    mutating func swipe(_ id: String) { DismissalRecord.keep([id], in: &swiped) }

    mutating func settle(_ id: String) {
        swiped.removeAll { $0 == id }
        dismiss([id])
    }

    private static func keep(_ new: [String], in ids: inout [String]) {
        for id in new {
            ids.removeAll { $0 == id }
            ids.append(id)
        }
        ids = ids.suffix(kept)
    }
}

/// Keeps the `DismissalRecord` beside the number, over launches and between an app and its extension, and has the phone remove
/// what is dismissed. It never sets a number.
struct Dismissals: Sendable {
    let badge: BadgeStore
    /// nil leaves the phone's notifications as they are.
    let shown: ShownNotifications?
    private static let key = "dismissals"

    init(_ badge: BadgeStore, _ shown: ShownNotifications?) {
        self.badge = badge
        self.shown = shown
    }

    var record: DismissalRecord { DismissalRecord(text: badge.storage.read(Dismissals.key), session: badge.session) }

    /// - Parameter session: the session in which it was dismissed: a later one keeps nothing of it. Nil: the present one.
    func change(in session: Int? = nil, _ next: (inout DismissalRecord) -> Void) {
        badge.storage.exclusively {
            let before = record
            guard before.session == session ?? before.session else { return }
            var after = before
            next(&after)
            guard after != before, let text = after.text else { return }
            badge.storage.write(Dismissals.key, text)
        }
    }

    /// Takes what a push says is dismissed, unless it may be another user's.
    func hear(_ push: PushPayload) {
        let session = badge.session
        guard badge.takesPushes, !push.dismissed.isEmpty || push.dismissedThrough != nil else { return }
        change(in: session) { $0.dismiss(push.dismissed, through: push.dismissedThrough) }
    }

    /// True if an alert's entry was read or deleted before it came.
    func covers(_ push: PushPayload) -> Bool { push.id.map(record.covers) ?? false }

    /// Removes everything that is known to be dismissed, also what iOS has shown after it was.
    func removeDismissed() async {
        let record = record
        guard !record.isEmpty else { return }
        await remove(where: record.covers)
    }

    /// The entries of what the phone shows. What isn't Campanile's isn't among them: a server would call it handled.
    func shownIDs() async -> [String] { await shown?.delivered().compactMap(\.id) ?? [] }

    /// Looks anew at what the phone shows: under the name of a dismissed notification there may be a newer one now.
    func remove(where isDismissed: (String) -> Bool) async {
        guard let shown else { return }
        let identifiers = await shown.delivered().filter { $0.id.map(isDismissed) ?? false }.map(\.identifier)
        if !identifiers.isEmpty { shown.remove(identifiers) }
    }
}
