/// The system that runs the app.
public enum DevicePlatform: String, CaseIterable, Sendable {
    case ios, android
}

/// The service that delivers to a device.
public enum DeviceProvider: String, CaseIterable, Sendable {
    case apns, fcm

    /// Chooses the provider to which pushes for a platform go unless the app says otherwise.
    public init(defaultFor platform: DevicePlatform) {
        self = platform == .ios ? .apns : .fcm
    }
}

/// The one of Apple's two services that knows the token: the build's, not the server's (Apple, "Sending notification requests").
public enum DeviceEnvironment: String, CaseIterable, Sendable {
    case production, sandbox
}

/// The kind of identifier by which Firebase knows an installation. Apple knows it by its token alone.
public enum DeviceTokenKind: String, CaseIterable, Sendable {
    /// A registration token. Firebase's begins with the installation's ID and a colon.
    case token
    /// A Firebase Installation ID, which takes the token's place in an app that opted in to it (Firebase, "FCM HTTP v1 API", `fid`).
    case fid
}

/// An app installation that can be pushed to.
public struct DeviceToken: Hashable, Sendable {
    /// The identifier that its provider knows: a token, or an installation ID.
    public let token: String
    public let kind: DeviceTokenKind
    public let platform: DevicePlatform
    public let provider: DeviceProvider
    public let environment: DeviceEnvironment
    public let appVersion: String?
    public let locale: String?
    public let lastRegisteredAt: Timestamp

    public init(
        token: String, kind: DeviceTokenKind = .token, platform: DevicePlatform, provider: DeviceProvider,
        environment: DeviceEnvironment, appVersion: String?, locale: String?, lastRegisteredAt: Timestamp
    ) {
        self.token = token
        self.kind = kind
        self.platform = platform
        self.provider = provider
        self.environment = environment
        self.appVersion = appVersion
        self.locale = locale
        self.lastRegisteredAt = lastRegisteredAt
    }

    /// Returns the device as registered at another time.
    package func registered(at time: Timestamp) -> DeviceToken {
        DeviceToken(
            token: token, kind: kind, platform: platform, provider: provider, environment: environment,
            appVersion: appVersion, locale: locale, lastRegisteredAt: time)
    }

    /// Apple's tokens are hexadecimal and compared without case, so one installation can't stand in the registry twice.
    /// Firebase's tokens stay as they are, also those of iPhones.
    public static func normalized(_ token: String, provider: DeviceProvider) -> String {
        provider == .apns ? token.lowercased() : token
    }
}

/// The device that a push goes to.
package struct PushDevice: Sendable {
    package let token: String
    package let kind: DeviceTokenKind
    package let platform: DevicePlatform
    package let provider: DeviceProvider
    package let environment: DeviceEnvironment

    package init(
        token: String, kind: DeviceTokenKind = .token, platform: DevicePlatform, provider: DeviceProvider,
        environment: DeviceEnvironment
    ) {
        self.token = token
        self.kind = kind
        self.platform = platform
        self.provider = provider
        self.environment = environment
    }
}

/// The level at which an alert on iOS interrupts (Apple, "UNNotificationInterruptionLevel").
package enum InterruptionLevel: String, Sendable, CaseIterable {
    case passive, active
    case timeSensitive = "time-sensitive"
    case critical
}
