package import CampanileCore
import Synchronization

/// The provider without an account: it accepts everything, keeps the newest pushes in memory, and shows exactly the
/// requests that APNs or FCM would have got.
package final class SandboxProvider: PushProvider {
    /// A push as it would have been sent.
    package struct Record: Sendable {
        package let message: PushMessage
        package let notificationID: UUIDv7?
        package let request: PushRequest
    }

    private struct Ring: Sendable {
        var messages: [PushMessage] = []
        /// The slot of the next one once the ring is full.
        var next = 0
    }

    private let ring = Mutex(Ring())
    private let capacity: Int
    private let options: PayloadOptions

    /// - Parameter capacity: the number of pushes to remember, at least 1.
    package init(capacity: Int, options: PayloadOptions) {
        precondition(capacity > 0)
        self.capacity = capacity
        self.options = options
    }

    package func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void) {
        ring.withLock { ring in
            if ring.messages.count < capacity {
                ring.messages.append(message)
            } else {
                ring.messages[ring.next] = message
                ring.next = (ring.next + 1) % capacity
            }
        }
        answer(PushAnswer(outcome: .accepted, status: 200, reason: nil))
    }

    /// The remembered pushes of one app, newest first; of one user only, if named. Builds their requests from the same
    /// values and with the same code as for a provider.
    package func pushes(app: String, userID: String?) -> [Record] {
        let (messages, next) = ring.withLock { ($0.messages, $0.next) }
        let newestFirst = (messages[next...] + messages[..<next]).reversed()
        let (app, userID) = (ExactText(app), userID.map { ExactText($0) })
        return newestFirst.filter { message in
            ExactText(message.app) == app && (userID == nil || ExactText(message.userID) == userID)
        }.map(record)
    }

    private func record(_ message: PushMessage) -> Record {
        let request =
            switch message.device.provider {
            case .apns: APNsPayload.request(message, options: options)
            case .fcm: FCMPayload.request(message, options: options)
            }
        var notificationID: UUIDv7?
        if case .alert(let alert) = message.kind { notificationID = alert.notificationID }
        return Record(message: message, notificationID: notificationID, request: request)
    }
}
