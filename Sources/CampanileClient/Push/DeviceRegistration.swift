public import CampanileCore
public import Foundation

/// This device's place in the server's registry: at every launch, after each sign-in, and until sign-out.
public actor DeviceRegistration {
    private let api: CampanileAPI
    private let storage: ClientStorage
    private let platform: DevicePlatform
    private let provider: DeviceProvider?
    private let environment: DeviceEnvironment
    private let appVersion: String?
    private let locale: String?
    /// Registrations that were begun, and the newest that is done or needn't be any more.
    private var begun = 0
    private var settled = 0
    /// Whose the last one was.
    private var user: UserTokenClaims.User?
    private var last: Task<Void, Never>?
    /// Whether somebody has signed out in this launch, and nobody has signed in since.
    private var isVacant = false
    /// Whose number the registration changes.
    private var badge: BadgeStore?
    private static let key = "device_token"
    private static let leftKey = "left"

    /// - Parameters:
    ///   - provider: who gives the token, and delivers to it: `.fcm` for an iPhone whose app uses Firebase's token; nil:
    ///     Apple on iOS, Firebase on Android.
    ///   - environment: of the build, which `DeviceEnvironment.ofThisBuild` knows. `#if DEBUG` doesn't.
    ///   - appVersion: such as `2.1.0`; a deep link may need one.
    public init(
        api: CampanileAPI, storage: ClientStorage = .userDefaults(), platform: DevicePlatform = .ios,
        provider: DeviceProvider? = nil, environment: DeviceEnvironment = .ofThisBuild,
        appVersion: String? = DeviceRegistration.bundleVersion, locale: String? = Locale.current.identifier
    ) {
        self.api = api
        self.storage = storage
        self.platform = platform
        self.provider = provider
        self.environment = environment
        self.appVersion = appVersion
        self.locale = locale
    }

    /// `CFBundleShortVersionString` of the app.
    public static var bundleVersion: String? {
        Bundle.main.object(forInfoDictionaryKey: "CFBundleShortVersionString") as? String
    }

    /// The system has given the token: register it, whether or not it is the one from before, at every launch. After a sign-out
    /// it waits for `signedIn`.
    /// - Parameter token: as `didRegisterForRemoteNotificationsWithDeviceToken` has it.
    public func register(_ token: Data) async throws { try await register(DeviceRegistration.hexadecimal(token)) }

    /// The same with a token that is a text, as Firebase's are (`provider`).
    public func register(_ token: String) async throws {
        storage.write(DeviceRegistration.key, token)
        api.deviceToken = token
        try await registerAgain()
    }

    /// Somebody has signed in, or a page says at a launch who is: the number is theirs, and so is the token that the system gave
    /// in this launch; what is under way of the user before is called off. Before the system has given one, its coming
    /// registers. One of an earlier launch isn't registered: in a restored backup it is another phone's.
    public func signedIn(_ user: String, _ badge: BadgeStore) async throws {
        claim(badge, for: user)
        self.badge = badge
        try await signedIn()
    }

    /// - Returns: whether it was somebody else's before.
    @discardableResult
    nonisolated func claim(_ badge: BadgeStore, for user: String) -> Bool { badge.signedIn(user, at: api.baseURL) }

    func signedIn() async throws {
        isVacant = false
        storage.write(DeviceRegistration.leftKey, nil)
        try await registerAgain()
    }

    /// Whether somebody has signed out here whom the server couldn't be told of, and nobody has signed in since.
    var isLeft: Bool { storage.read(DeviceRegistration.leftKey) != nil }

    /// The app comes to the foreground: registers if the last time failed, as it does at a launch without network.
    public func cameToForeground() async throws {
        if settled < begun { try await registerAgain() }
    }

    private func registerAgain() async throws {
        begun += 1
        let registration = begun
        try await inTurn { try await self.register() }
        settled = max(settled, registration)
    }

    private func register() async throws {
        // Between a sign-out and the end of the app's own session there is a token, of the user who leaves.
        guard !isVacant else { return }
        // Nobody is signed in yet: `signedIn()` comes.
        guard let newUser = try await api.signedInUser() else { return }
        if let user, user != newUser { api.leaves(user) }
        user = newUser
        guard let token = api.deviceToken else { return }
        let session = badge?.session
        try await api.registerDevice(
            token, platform: platform, provider: provider, environment: environment, appVersion: appVersion, locale: locale)
        if let badge, let session, badge.registered(in: session) { try await badge.refresh(api) }
    }

    /// One after the other: a registration that is on its way must not arrive behind the sign-out that follows it.
    private func inTurn(_ work: @escaping @Sendable () async throws -> Void) async throws {
        let before = last
        let task = Task {
            await before?.value
            try await work()
        }
        last = Task { _ = try? await task.value }
        try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// What became of this device's pushes at sign-out.
    public enum SignOut: Hashable, Sendable {
        /// No push of this user comes here any more.
        case unregistered
        /// The server couldn't be told: the user's pushes go on coming to this device until somebody signs in here, or the app
        /// calls `unregisterForRemoteNotifications()`, as `signOutOfDevice` does, which needs no network.
        case stillRegistered(ClientFailure)
    }

    /// Call it before your own session ends, because it takes a user token: calls off what is under way of the user, forgets
    /// the badge, and deletes the device token at the server. The token itself is kept for whoever signs in next.
    public func signOut(_ badge: BadgeStore) async -> SignOut {
        isVacant = true
        api.leaves(nil)
        // Before the server is asked: by its answer the next user may be there.
        badge.signedOut()
        var outcome = SignOut.unregistered
        // Before the system has given the token in this launch, the one of the launch before is what the server knows.
        if let token = api.deviceToken ?? storage.read(DeviceRegistration.key) {
            storage.write(DeviceRegistration.leftKey, "yes")
            do {
                settled = begun
                try await inTurn { [api] in try await api.deleteDevice(token) }
                storage.write(DeviceRegistration.leftKey, nil)
            } catch {
                outcome = .stillRegistered(ClientFailure(error) ?? ClientFailure(.unreachable, detail: "cancelled"))
            }
        }
        return outcome
    }

    /// A token's text as APNs wants it: two digits a byte, in lower case.
    public static func hexadecimal(_ token: Data) -> String { Hex.encode(token) }
}
