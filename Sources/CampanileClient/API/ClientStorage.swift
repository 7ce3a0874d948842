import Foundation

/// Where the little is kept that must survive the app: the badge's version, the device's token.
///
/// An app with a notification service extension gives both the same app group, so that they refuse the same older badges.
public struct ClientStorage: Sendable {
    public var read: @Sendable (_ key: String) -> String?
    /// nil removes the key.
    public var write: @Sendable (_ key: String, _ value: String?) -> Void

    public init(
        read: @escaping @Sendable (_ key: String) -> String?,
        write: @escaping @Sendable (_ key: String, _ value: String?) -> Void
    ) {
        self.read = read
        self.write = write
    }

    /// The user defaults.
    /// - Parameter appGroup: the identifier of an app group, such as `group.com.example.shop`; nil: the app's own.
    public static func userDefaults(appGroup: String? = nil) -> ClientStorage {
        // Found anew each time, because not every system calls UserDefaults Sendable. The system keeps them.
        @Sendable func defaults() -> UserDefaults { appGroup.flatMap { UserDefaults(suiteName: $0) } ?? .standard }
        return ClientStorage(
            read: { defaults().string(forKey: "campanile." + $0) },
            write: { key, value in
                guard let value else { return defaults().removeObject(forKey: "campanile." + key) }
                defaults().set(value, forKey: "campanile." + key)
            })
    }

    /// Forgotten with the process: for tests and previews.
    public static func memory() -> ClientStorage {
        let values = Locked<[String: String]>([:])
        return ClientStorage(
            read: { key in values.withLock { $0[key] } },
            write: { key, value in values.withLock { $0[key] = value } })
    }
}
