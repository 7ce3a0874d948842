import CampanileClient
import HotwireNative

/// The web session and this device's pushes. A page of somebody who is signed in sends `connect` {userToken, userID}, and
/// gets the device's token; before the session ends it sends `signOut`, and ends it when the answer is there.
final class NotificationTokenComponent: BridgeComponent {
    private struct SignedIn: Decodable {
        let userToken: String
        let userID: String
    }

    private struct Device: Encodable {
        let token: String?
        let environment: String
    }

    private struct SignedOut: Encodable {
        let deleted: Bool
        /// For the user; there is one when they have to know.
        let message: String?
    }

    override nonisolated class var name: String { "notification-token" }

    override func onReceive(message: Message) {
        switch message.event {
        case "connect": message.data().map(connect)
        case "signOut": Task { await signOut() }
        default: break
        }
    }

    private func connect(_ page: SignedIn) {
        Task {
            await Services.shared.signedIn(page.userID, page.userToken)
            _ = try? await reply(
                to: "connect",
                with: Device(token: Services.shared.api.deviceToken, environment: DeviceEnvironment.ofThisBuild.rawValue))
        }
    }

    private func signOut() async {
        let outcome = await Services.shared.signOut()
        let answer: SignedOut
        switch outcome {
        case .unregistered: answer = SignedOut(deleted: true, message: nil)
        case .stillRegistered(let failure):
            let now = "Notifications are switched off on this device until you sign in again."
            answer = SignedOut(deleted: false, message: "\(failure.message) \(now)")
        }
        _ = try? await reply(to: "signOut", with: answer)
    }
}
