import CampanileClient
import HotwireNative

/// The page's number: `update` {count} whenever it changes there. A page's number has no version, so it is only the
/// reason to ask the server for the one that has.
final class BadgeComponent: BridgeComponent {
    private struct Number: Decodable {
        let count: Int
    }

    override nonisolated class var name: String { "badge" }

    override func onReceive(message: Message) {
        guard message.event == "update", let number: Number = message.data() else { return }
        guard number.count != Services.shared.badge.count else { return }
        Task { await Services.shared.push.refresh() }
    }
}
