public import Foundation

/// Where the little is kept that must survive the app: the badge with its version, the device's token.
///
/// An app with a notification service extension gives both the same app group (`appGroup(_:)`), so that they refuse the same
/// older badges, also when both are told one at the same moment.
public struct ClientStorage: Sendable {
    public var read: @Sendable (_ key: String) -> String?
    /// nil removes the key.
    public var write: @Sendable (_ key: String, _ value: String?) -> Void
    /// Does the work, which reads and then writes, while nobody else does theirs: no other thread, and no other process that
    /// shares the storage. The work is short, and begins no other.
    public var exclusively: @Sendable (_ work: () -> Void) -> Void

    public init(
        read: @escaping @Sendable (_ key: String) -> String?,
        write: @escaping @Sendable (_ key: String, _ value: String?) -> Void,
        exclusively: @escaping @Sendable (_ work: () -> Void) -> Void
    ) {
        self.read = read
        self.write = write
        self.exclusively = exclusively
    }

    /// The app's own user defaults. They are no place to share with an extension: what one process writes reaches the other
    /// late.
    public static func userDefaults() -> ClientStorage {
        // Found anew each time, because not every system calls UserDefaults Sendable. The system keeps them.
        ClientStorage(
            read: { UserDefaults.standard.string(forKey: "campanile." + $0) },
            write: { key, value in
                guard let value else { return UserDefaults.standard.removeObject(forKey: "campanile." + key) }
                UserDefaults.standard.set(value, forKey: "campanile." + key)
            },
            exclusively: { work in defaultsLock.withLock(work) })
    }

    private static let defaultsLock = NSLock()

    /// What an app shares with its extensions.
    /// - Parameter identifier: of the app group, such as `group.com.example.shop`, which the entitlements of both name. Without
    ///   the entitlement each has a storage of its own.
    public static func appGroup(_ identifier: String) -> ClientStorage {
        #if canImport(Darwin)
        let container = FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: identifier)?
            .appendingPathComponent("Library/Application Support")
        #else
        let container: URL? = nil
        #endif
        let own = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
        return files(in: (container ?? own ?? FileManager.default.temporaryDirectory).appendingPathComponent("Campanile"))
    }

    /// A small file for each key in this folder, which is made if it isn't there. Processes may share it. On iOS the files can
    /// be read while the device is locked, also before it was unlocked for the first time: pushes come then too, and a number
    /// that can't be read is none. The app's other files keep their protection.
    public static func files(in folder: URL) -> ClientStorage {
        try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // For the lock, which gets the folder's.
        try? FileManager.default.setAttributes([.protectionKey: FileProtectionType.none], ofItemAtPath: folder.path)
        @Sendable func file(_ key: String) -> URL { folder.appendingPathComponent(key) }
        return ClientStorage(
            read: { key in (try? Data(contentsOf: file(key))).map { String(decoding: $0, as: UTF8.self) } },
            write: { key, value in
                if let value {
                    // Whole or not at all, also for a reader in the middle.
                    try? Data(value.utf8).write(to: file(key), options: [.atomic, .noFileProtection])
                } else {
                    try? FileManager.default.removeItem(at: file(key))
                }
            },
            exclusively: { work in withFileLock(folder.appendingPathComponent("lock").path, work) })
    }

    /// The system frees the lock when the process ends. It is held for one reading and writing, never over a wait: iOS ends an
    /// app that is suspended while it holds a lock in a shared container.
    private static func withFileLock(_ path: String, _ work: () -> Void) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // Without a folder there is nothing to share.
        guard descriptor >= 0 else { return defaultsLock.withLock(work) }
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
        work()
    }

    /// Forgotten with the process: for tests and previews.
    public static func memory() -> ClientStorage {
        let values = Locked<[String: String]>([:])
        let turn = NSLock()
        return ClientStorage(
            read: { key in values.withLock { $0[key] } },
            write: { key, value in values.withLock { $0[key] = value } },
            exclusively: { work in turn.withLock(work) })
    }
}
