import CampanileClient
import HotwireNative
import UIKit
import os

/// Shared by the whole app: the number, the calls, this device's registration. Bridge components are made by the
/// library, so they find it here.
@MainActor
final class Services {
    static let shared = Services()

    let badge: BadgeStore
    let api: CampanileAPI
    let registration: DeviceRegistration
    let push: PushHandler
    let pushDelegate: PushDelegate
    /// Called when a page shows that the user whom the app knows is signed in. For another user see `BadgeStore.onUserChange`.
    var signedInAgain: () -> Void = {}
    /// Called when a sign-out has its answer, and the page goes on to end the web session.
    var signOutAnswered: () -> Void = {}
    // HotwireNative has a Logger too.
    private let logger = os.Logger(subsystem: "com.example.campanile", category: "app")
    private let userToken = HandedUserToken()
    private var userID: String?
    /// The user of the newest page.
    private var pageUserID: String?
    /// The user who is signing out: their pages hand tokens until their session ends.
    private var leavingUserID: String?
    /// Sign-outs that were begun.
    private var departures = 0

    private init() {
        let storage = ClientStorage.appGroup(appGroup)
        badge = BadgeStore(storage: storage)
        api = CampanileAPI(
            baseURL: Addresses.campanile.url, userAgent: Hotwire.config.userAgent,
            userToken: { [userToken] in await userToken.token(refused: $0) })
        registration = DeviceRegistration(api: api, storage: storage)
        push = PushHandler(
            api: api, badge: badge, icon: BadgeIcon.system(badge), inboxPath: Addresses.inbox, shown: .system,
            report: { Services.shared.log($0) })
        pushDelegate = PushDelegate(push)
    }

    /// A page of somebody who is signed in was shown. Each brings a fresh user token; the first one of a user also registers
    /// the device, and asks for their number. The token is handed first: no call of the new user may go with the old one.
    func signedIn(_ userID: String, _ token: String) async {
        let before = departures
        pageUserID = userID
        // A page from before, of a user who may have gone, isn't taken.
        guard await userToken.hand(token) else { return }
        // A page hands a token right before it has the user signed out, and other pages may while that goes on.
        guard departures == before, userID != leavingUserID else { return }
        if badge.user == userID { signedInAgain() }
        guard self.userID != userID else { return }
        self.userID = userID
        await attempt {
            guard $0.departures == before else { return }
            try await $0.registration.signedInOnDevice(userID, $0.badge)
        }.value
        await push.refresh()
        // Now the user knows what for.
        attempt { try await $0.registration.askForAlerts() }
    }

    /// A page's number has no version, so it is only the reason to ask the server for the one that has.
    func pageSays(_ count: Int) {
        guard count != badge.count else { return }
        Task { await push.refresh() }
    }

    /// The web session is about to end.
    func signOut() async -> DeviceRegistration.SignOut {
        departures += 1
        let leaving = userID ?? pageUserID
        leavingUserID = leaving
        userID = nil
        let outcome = await registration.signOutOfDevice(badge)
        // Whoever has signed in while the server was slow keeps their token.
        if let leaving { await userToken.signedOut(leaving) } else { await userToken.hand(nil) }
        if leavingUserID == leaving { leavingUserID = nil }
        signOutAnswered()
        return outcome
    }

    /// The number is asked for anew, and what failed without a network is done again.
    func cameToForeground() {
        attempt { try await $0.registration.cameToForeground() }
        Task { await push.cameToForeground() }
    }

    /// At every launch, because tokens change.
    func registerForPushes() { attempt { await $0.registration.start() } }

    /// Does it, and logs why it failed: nothing of this is worth an alert.
    @discardableResult
    func attempt(_ work: @escaping @MainActor (Services) async throws -> Void) -> Task<Void, Never> {
        Task {
            do {
                try await work(self)
            } catch {
                if let failure = ClientFailure(error) { log(failure) }
            }
        }
    }

    func log(_ problem: Any) { logger.error("\(String(describing: problem), privacy: .public)") }
}
