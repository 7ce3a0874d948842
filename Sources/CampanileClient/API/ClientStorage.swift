public import Foundation

/// The storage for values that must survive the app: the badge with its version, the device's token.
///
/// An app and its notification service extension use the same app group (`appGroup(_:)`), so that both refuse the same
/// older badges, even when both get one at the same moment.
public struct ClientStorage: Sendable {
    public var read: @Sendable (_ key: String) -> String?
    /// nil removes the key.
    public var write: @Sendable (_ key: String, _ value: String?) -> Void
    /// Runs work that reads and then writes, while no other thread, and no other process that shares the storage, runs
    /// any. The work must be short and not nest.
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

    /// The app's own user defaults. Not for sharing with an extension: one process's writes reach the other late.
    public static func userDefaults() -> ClientStorage {
        // Looked up each time, because UserDefaults isn't Sendable on every system. The system keeps them.
        ClientStorage(
            read: { UserDefaults.standard.string(forKey: "campanile." + $0) },
            write: { key, value in
                guard let value else { return UserDefaults.standard.removeObject(forKey: "campanile." + key) }
                UserDefaults.standard.set(value, forKey: "campanile." + key)
            },
            exclusively: { work in defaultsLock.withLock(work) })
    }

    private static let defaultsLock = NSLock()

    /// The storage that an app shares with its extensions.
    /// - Parameter identifier: the app group's, such as `group.com.example.shop`; both need it in their entitlements.
    ///   Without the entitlement each has its own storage.
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

    /// A small file for each key in this folder, which is created if missing. Processes may share it. On iOS the files
    /// are readable while the device is locked, even before its first unlock: pushes come then too, and need the
    /// number. The app's other files keep their protection.
    public static func files(in folder: URL) -> ClientStorage {
        try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // The lock's file gets the folder's protection.
        try? FileManager.default.setAttributes([.protectionKey: FileProtectionType.none], ofItemAtPath: folder.path)
        @Sendable func file(_ key: String) -> URL { folder.appendingPathComponent(key) }
        return ClientStorage(
            read: { key in (try? Data(contentsOf: file(key))).map { String(decoding: $0, as: UTF8.self) } },
            write: { key, value in
                if let value {
                    // Atomically, for readers as well.
                    try? Data(value.utf8).write(to: file(key), options: [.atomic, .noFileProtection])
                } else {
                    try? FileManager.default.removeItem(at: file(key))
                }
            },
            exclusively: { work in withFileLock(folder.appendingPathComponent("lock").path, work) })
    }

    /// The system frees the lock when the process ends. The process holds it for one read and write, never over a wait:
    /// iOS ends an app that is suspended while it holds a lock in a shared container.
    private static func withFileLock(_ path: String, _ work: () -> Void) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // Without a folder nothing is shared.
        guard descriptor >= 0 else { return defaultsLock.withLock(work) }
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
        work()
    }

    /// Storage in memory, for tests and previews.
    public static func memory() -> ClientStorage {
        let values = Locked<[String: String]>([:])
        let turn = NSLock()
        return ClientStorage(
            read: { key in values.withLock { $0[key] } },
            write: { key, value in values.withLock { $0[key] = value } },
            exclusively: { work in turn.withLock(work) })
    }
}
