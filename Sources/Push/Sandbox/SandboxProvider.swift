package import CampanileCore
import Synchronization

/// The provider that needs no account: it builds exactly what APNs or FCM would be sent, keeps the newest in memory, and
/// accepts everything.
package final class SandboxProvider: PushProvider {
    package struct Record: Sendable {
        package let app: String
        package let userID: String
        package let device: PushDevice
        package let notificationID: UUIDv7?
        package let request: PushRequest
        package let sentAt: Timestamp
    }

    private struct Ring: Sendable {
        var records: [Record] = []
        /// Where the next record goes once the ring is full.
        var next = 0
    }

    private let ring = Mutex(Ring())
    private let capacity: Int
    private let options: PayloadOptions

    /// - Parameter capacity: how many pushes are remembered, at least 1.
    package init(capacity: Int, options: PayloadOptions) {
        precondition(capacity > 0)
        self.capacity = capacity
        self.options = options
    }

    package func send(_ message: PushMessage) async -> PushAnswer {
        record(message)
        return PushAnswer(outcome: .accepted, status: 200, reason: nil)
    }

    private func record(_ message: PushMessage) {
        let request =
            switch message.device.provider {
            case .apns: APNsPayload.request(message, options: options)
            case .fcm: FCMPayload.request(message, options: options)
            }
        var notificationID: UUIDv7?
        if case .alert(let alert) = message.kind { notificationID = alert.notificationID }
        let record = Record(
            app: message.app, userID: message.userID, device: message.device, notificationID: notificationID,
            request: request, sentAt: message.sentAt)
        ring.withLock { ring in
            if ring.records.count < capacity {
                ring.records.append(record)
            } else {
                ring.records[ring.next] = record
                ring.next = (ring.next + 1) % capacity
            }
        }
    }

    /// The remembered pushes of one app, newest first; of one user only, if named.
    package func pushes(app: String, userID: String?) -> [Record] {
        let (records, next) = ring.withLock { ($0.records, $0.next) }
        let inOrder = records[next...] + records[..<next]
        return inOrder.reversed().filter { $0.app == app && (userID == nil || $0.userID == userID) }
    }
}
