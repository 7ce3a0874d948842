import CampanileCore
import Push

@testable import CampanileServer

/// A phone of the random walks: the number and the notifications that it shows. Its app has the service extension, and is woken for
/// every push that asks for it.
struct WalkedPhone {
    let platform: DevicePlatform
    private(set) var number: Int64 = 0
    private(set) var shown: Set<UUIDv7> = []
    /// Those that any alert showed.
    private(set) var wereShown: Set<UUIDv7> = []

    init(_ platform: DevicePlatform) { self.platform = platform }

    /// - Returns: what the push says that must not be: it names what is unread, or what the phone never showed.
    mutating func receive(_ message: PushMessage, unread: Set<UUIDv7>) -> [String] {
        let mistakes = message.dismissal.map { self.mistakes(of: $0, unread: unread) } ?? []
        if case .alert(let alert) = message.kind {
            // Android's system draws an alert without the app.
            if platform == .ios { take(message.dismissal) }
            shown.insert(alert.notificationID)
            wereShown.insert(alert.notificationID)
            // iOS leaves the icon alone when a push carries no badge.
            if message.badge.count > 0 { number = message.badge.count }
        } else {
            take(message.dismissal)
            if message.kind.isBadge { show(message.badge.count) }
        }
        return mistakes
    }

    private func mistakes(of dismissal: Dismissal, unread: Set<UUIDv7>) -> [String] {
        switch dismissal {
        case .ids(let ids):
            ids.filter { unread.contains($0) }.map { "\($0) is unread" }
                + ids.filter { !wereShown.contains($0) }.map { "\($0) was never shown" }
        case .through(let id): shown.filter { $0 <= id && unread.contains($0) }.map { "\($0), up to \(id), is unread" }
        }
    }

    private mutating func take(_ dismissal: Dismissal?) {
        switch dismissal {
        case .ids(let ids)?: shown.subtract(ids)
        case .through(let id)?: shown = shown.filter { $0 > id }
        case nil: break
        }
    }

    /// The icon shows a number; iOS empties its notification center when another one becomes 0.
    mutating func show(_ count: Int64) {
        if platform == .ios, count == 0, number != 0 { shown = [] }
        number = count
    }

    /// Its user handled these in the app, or it asked for them.
    mutating func takeAway(_ ids: some Sequence<UUIDv7>) { shown.subtract(ids) }
}

extension PushMessage.Kind {
    fileprivate var isBadge: Bool { if case .badge = self { true } else { false } }
}
