import CampanileClient
import HotwireNative

/// The page's number: `update` {count} whenever it changes there.
final class BadgeComponent: BridgeComponent {
    private struct Number: Decodable {
        let count: Int
    }

    override nonisolated class var name: String { "badge" }

    override func onReceive(message: Message) {
        guard message.event == "update", let number: Number = message.data() else { return }
        Services.shared.pageSays(number.count)
    }
}
