import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("An alert in the extension", .endsIfItHangs)
@MainActor
struct AlertWorkTests {
    /// An alert as it was shown: without an image, because the fetch is refused.
    private struct Shown: Equatable, Sendable {
        let hasImage: Bool
        let isDismissed: Bool
    }

    private let shown = Watched<[Shown]>([])

    private func work(_ dismissals: Dismissals, image: @escaping ScriptedTransport.StreamScript) -> AlertWork {
        AlertWork(dismissals: dismissals, images: AlertImageFetch(transport: ScriptedTransport(streams: image)))
    }

    private func begin(
        _ alert: PushPayload, _ dismissals: Dismissals,
        image: @escaping ScriptedTransport.StreamScript = { _, _ in throw URLError(.badURL) }
    ) -> WaitingAlert? {
        work(dismissals, image: image).begin(alert) { [shown] file, isDismissed in
            shown.change { $0.append(Shown(hasImage: file != nil, isDismissed: isDismissed)) }
        }
    }

    @Test("while nothing was dismissed it is shown at once")
    func atOnce() {
        let phone = Phone([1])
        #expect(begin(PushPayload(id: entryID(2)), phone.dismissals) == nil)
        #expect(shown.value == [Shown(hasImage: false, isDismissed: false)] && phone.shown == [entryID(1)])
    }

    @Test("others that it dismisses have left when it is shown")
    func removes() async {
        let phone = Phone([1, 2])
        let alert = PushPayload(id: entryID(3), dismissed: [entryID(1)])
        let center = phone.center
        let left = Watched<[String]?>(nil)
        _ = AlertWork(dismissals: phone.dismissals, images: AlertImageFetch()).begin(alert) { _, isDismissed in
            left.change { $0 = center.withLock { $0.map(\.identifier) } + (isDismissed ? ["dismissed"] : []) }
        }
        await left.until { $0 != nil }
        #expect(left.value == [entryID(2)])
    }

    @Test("one whose entry the app knows as read is shown all the same, silently")
    func late() async {
        let phone = Phone()
        await phone.handler.received(PushPayload(isAlert: false, dismissedThrough: entryID(5)))
        for number in [5, 6] {
            _ = begin(PushPayload(id: entryID(number)), phone.dismissals)
            await shown.until { $0.count == number - 4 }
        }
        #expect(shown.value.map(\.isDismissed) == [true, false])
    }

    @Test("one that is read while it waits for its image is shown silently, and when the time is over it waits for nothing")
    func whileItWaits() async throws {
        let phone = Phone()
        let isAsked = Watched(false)
        let alert = PushPayload(id: entryID(1), imageURL: .example("https://images.example.com/1"))
        let (body, image) = AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self)
        let waiting = begin(alert, phone.dismissals) { _, _ in
            isAsked.change { $0 = true }
            return HTTPStream(status: 200, headers: ["content-type": "image/png"], body: body)
        }
        await isAsked.until { $0 }
        #expect(shown.value.isEmpty)
        phone.dismissals.hear(dismissing(1))
        try #require(waiting).endWait()
        #expect(shown.value == [Shown(hasImage: false, isDismissed: true)])
        // Kept until here, because a stream ends when nobody can continue it.
        image.finish()
    }
}
