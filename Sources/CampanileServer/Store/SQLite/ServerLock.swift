import CampanileCore
import Glibc
import SQLEngine
import Synchronization

/// One server at a time works on a database: two delivery workers would push twice. The kernel gives the lock back when the process ends,
/// however it ends. Commands that only write beside a running server don't take it.
///
/// The file itself is locked, so it doesn't matter by which of its names a server was given it. Its place is locked too, by a
/// file beside it: where another file was put into the place, the server that has the old one open still holds the log of that
/// name, and a second one would write to it.
final class ServerLock: Sendable {
    /// The identity of the locked file; nil if only its place is locked.
    let identity: FileIdentity?
    private let descriptors: Mutex<[Int32]>

    /// F_OFD_SETLK, which the header shows to GNU's C only: a lock of this descriptor and not of the process. It is no matter
    /// of SQLite's locks, as `flock` would be on NFS, and isn't lost when SQLite closes the file.
    private static let setLock: Int32 = 37
    /// F_OFD_GETLK: asks whether somebody holds such a lock, and takes none.
    private static let getLock: Int32 = 36
    /// The byte that is locked: far behind what SQLite locks and what a file can hold.
    private static let byte: off_t = 1 << 62

    init(database: String) throws {
        let path = try Store.find(database).path
        let place = try ServerLock.lockPlace(path, database)
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else {
            let failure = ServerLock.failure("The database \(database)", "can't be opened")
            ServerLock.letGo(place)
            throw failure
        }
        var range = ServerLock.range
        guard fcntl(descriptor, ServerLock.setLock, &range) == 0 else {
            let isTaken = errno == EAGAIN || errno == EACCES
            let failure = ServerLock.failure("The database \(database)", "can't be locked")
            // The other stays open: closing it would drop the locks that SQLite holds on the file for others in this process.
            ServerLock.letGo(place)
            throw isTaken ? ServerLock.taken(database) : failure
        }
        identity = FileIdentity(of: descriptor)
        descriptors = Mutex([descriptor, place])
    }

    /// Returns whether a server works on a database. It only asks: a lock that is held for a moment would stop a server that
    /// starts in that moment.
    static func isTaken(database: String) -> Bool {
        guard let path = DatabaseFile.path(database) else { return false }
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        var range = ServerLock.range
        let isTaken = fcntl(descriptor, getLock, &range) == 0 && range.l_type != Int16(F_UNLCK)
        // As above: if it is taken, SQLite may have the file open in this process.
        if !isTaken { close(descriptor) }
        return isTaken
    }

    private static var range: flock {
        flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: byte, l_len: 1, l_pid: 0)
    }

    /// Locks the place of a database alone, for a program that puts one there.
    init(placeOf database: String) throws {
        guard let path = DatabaseFile.path(database) else {
            throw OperatorError("\(database) is a symbolic link to a file that isn't there.")
        }
        identity = nil
        descriptors = Mutex([try ServerLock.lockPlace(path, database)])
    }

    private static func lockPlace(_ path: String, _ database: String) throws -> Int32 {
        let place = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard place >= 0 else { throw failure(path + ".lock", "can't be opened") }
        guard flock(place, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            close(place)
            errno = reason
            throw reason == EWOULDBLOCK ? taken(database) : failure(path + ".lock", "can't be locked")
        }
        return place
    }

    deinit { release() }

    /// Lets another server work on the database, which must be closed here.
    func release() {
        descriptors.withLock { descriptors in
            for descriptor in descriptors { ServerLock.letGo(descriptor) }
            descriptors = []
        }
    }

    /// Unlocks before it closes: a program that another thread starts just then has a copy of the descriptor until it runs,
    /// and both kinds of lock would stay with the copy.
    private static func letGo(_ descriptor: Int32) {
        var range = range
        range.l_type = Int16(F_UNLCK)
        _ = fcntl(descriptor, setLock, &range)
        _ = flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    private static func taken(_ database: String) -> OperatorError {
        OperatorError("Another campanile serves the database \(database) already.")
    }

    private static func failure(_ database: String, _ trouble: String) -> OperatorError {
        OperatorError("\(database) \(trouble): \(String(cString: strerror(errno))).")
    }
}

extension Store {
    /// Opens the database for a command, with a server beside it or without one. The schema isn't changed under a server of an
    /// earlier version: that doesn't know what the new one means, nor would the copy of before have what it still writes.
    static func openBeside(
        _ path: String, world: World, copying: @escaping DatabaseCopy.Progress = { _, _ in }
    ) throws -> (database: Store, migrated: MigrationReport) {
        if DatabaseAddress.isPostgres(path) {
            try refuseUnderNodes(path)
            return try openCluster(path, world: world)
        }
        try refuseUnderServer(path)
        return try open(path, world: world, copying: copying)
    }

    /// - Throws: when nodes serve a PostgreSQL database, and opening it here would change its schema.
    static func refuseUnderNodes(_ address: String, migrator: PostgresMigrator = PostgresMigrations.migrator) throws {
        let next = try explaining(cluster: address) { try pending(postgres: address, migrator: migrator).first }
        // The first makes the database.
        guard let next, next.version > 1 else { return }
        let names = try nodes(cluster: address).filter(\.isAlive).map(\.node.name)
        guard !names.isEmpty else { return }
        throw OperatorError(
            "Nodes of an earlier version serve the database \(DatabaseAddress.describe(address)) "
                + "(\(names.joined(separator: ", "))), and this command would change the schema under them. Start them again with "
                + "this version first. Nothing was changed.")
    }

    /// - Throws: when a server has the database open, and opening it here would change its schema.
    private static func refuseUnderServer(_ path: String) throws {
        let pending = try pendingMigrations(path).count
        // A database that is being made has none of its migrations.
        guard (1..<Migrations.all.count).contains(pending), ServerLock.isTaken(database: path) else { return }
        throw OperatorError(
            "A server of an earlier version serves the database \(path), and this command would change the schema under it. "
                + "Start that server again with this version first. Nothing was changed.")
    }
}
