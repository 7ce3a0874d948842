public import CampanileCore
public import Foundation

/// Keeps this device registered at the server: at every launch, after each sign-in, and until sign-out.
public actor DeviceRegistration {
    private let api: CampanileAPI
    private let storage: ClientStorage
    private let platform: DevicePlatform
    private let provider: DeviceProvider?
    private let kind: DeviceTokenKind?
    private let environment: DeviceEnvironment
    private let appVersion: String?
    private let locale: String?
    /// The number of registrations begun, and the newest one that is done or superseded.
    private var begun = 0
    private var settled = 0
    /// The user of the last registration.
    private var user: UserTokenClaims.User?
    private var last: Task<Void, Never>?
    /// True if the user has signed out in this launch and nobody has signed in since.
    private var isVacant = false
    /// The store whose number the registration changes.
    private var badge: BadgeStore?
    private static let key = "device_token"
    private static let leftKey = "left"

    /// - Parameters:
    ///   - provider: the service that gives the token and delivers to it: `.fcm` for an iPhone app with Firebase's
    ///     token; nil: Apple on iOS, Firebase on Android.
    ///   - kind: `.fid` for an app that registers its Firebase Installation ID in the token's place; nil: a token.
    ///   - environment: the build's, from `DeviceEnvironment.ofThisBuild`. `#if DEBUG` doesn't tell it.
    ///   - appVersion: such as `2.1.0`; a deep link may need one.
    public init(
        api: CampanileAPI, storage: ClientStorage = .userDefaults(), platform: DevicePlatform = .ios,
        provider: DeviceProvider? = nil, kind: DeviceTokenKind? = nil, environment: DeviceEnvironment = .ofThisBuild,
        appVersion: String? = DeviceRegistration.bundleVersion, locale: String? = Locale.current.identifier
    ) {
        self.api = api
        self.storage = storage
        self.platform = platform
        self.provider = provider
        self.kind = kind
        self.environment = environment
        self.appVersion = appVersion
        self.locale = locale
    }

    /// `CFBundleShortVersionString` of the app.
    public static var bundleVersion: String? {
        Bundle.main.object(forInfoDictionaryKey: "CFBundleShortVersionString") as? String
    }

    /// Registers the token from the system, even an unchanged one: call it at every launch. After a sign-out the token
    /// waits for `signedIn`.
    /// - Parameter token: from `didRegisterForRemoteNotificationsWithDeviceToken`.
    public func register(_ token: Data) async throws { try await register(DeviceRegistration.hexadecimal(token)) }

    /// Registers a text, such as Firebase's token or installation ID (`provider`, `kind`), in the same way.
    public func register(_ token: String) async throws {
        storage.write(DeviceRegistration.key, token)
        api.deviceToken = token
        try await registerAgain()
    }

    /// Call it when a user has signed in, or when a page says at a launch who is signed in. The number, and the token
    /// that the system gave in this launch, now belong to that user; work under way for the former user is cancelled.
    /// Without a token yet, its arrival registers the device. A token of an earlier launch isn't registered: in a
    /// restored backup it is another phone's.
    public func signedIn(_ user: String, _ badge: BadgeStore) async throws {
        claim(badge, for: user)
        self.badge = badge
        try await signedIn()
    }

    /// - Returns: whether it was another user's before.
    @discardableResult
    nonisolated func claim(_ badge: BadgeStore, for user: String) -> Bool { badge.signedIn(user, at: api.baseURL) }

    func signedIn() async throws {
        isVacant = false
        storage.write(DeviceRegistration.leftKey, nil)
        try await registerAgain()
    }

    /// True if a sign-out here didn't reach the server, and nobody has signed in since.
    var isLeft: Bool { storage.read(DeviceRegistration.leftKey) != nil }

    /// Call it when the app comes to the foreground: registers if the last attempt failed, for example at a launch
    /// without a network.
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
        // Between a sign-out and the end of the app's own session there still is a token of the leaving user.
        guard !isVacant else { return }
        // Nobody is signed in yet: `signedIn()` will register.
        guard let newUser = try await api.signedInUser() else { return }
        if let user, user != newUser { api.leaves(user) }
        user = newUser
        guard let token = api.deviceToken else { return }
        let session = badge?.session
        try await api.registerDevice(
            token, platform: platform, provider: provider, kind: kind, environment: environment, appVersion: appVersion,
            locale: locale)
        if let badge, let session, badge.registered(in: session) { try await badge.refresh(api) }
    }

    /// One after the other: a registration on its way must not arrive after the sign-out that follows it.
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

    /// The state of this device's pushes after a sign-out.
    public enum SignOut: Hashable, Sendable {
        /// This device gets no more pushes of this user.
        case unregistered
        /// The server couldn't be reached: the user's pushes still come to this device until somebody signs in here, or
        /// the app calls `unregisterForRemoteNotifications()`, which needs no network. `signOutOfDevice` calls it.
        case stillRegistered(ClientFailure)
    }

    /// Call it before your own session ends, because it needs a user token. Cancels the user's work under way, forgets
    /// the badge, and deletes the device token at the server. Keeps the token itself for the next user.
    public func signOut(_ badge: BadgeStore) async -> SignOut {
        isVacant = true
        api.leaves(nil)
        // Before the call to the server: when its answer comes, the next user may be signed in.
        badge.signedOut()
        var outcome = SignOut.unregistered
        // Until the system gives a token in this launch, the server knows the last launch's.
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

    /// A token's text for APNs: two hexadecimal digits a byte, in lower case.
    public static func hexadecimal(_ token: Data) -> String { Hex.encode(token) }
}
