import Glibc
import SQLEngine
import Synchronization

/// One server at a time works on a database: two couriers would push twice. The file itself is locked, so it doesn't matter by
/// which of its names a server was given it. The kernel gives the lock back when the process ends, however it ends. Commands
/// that only write beside a running server don't take it.
final class ServerLock: Sendable {
    struct Taken: Error, CustomStringConvertible {
        let database: String
        var description: String { "Another campanile serves the database \(database) already." }
    }

    /// What is locked.
    let identity: FileIdentity?
    private let descriptor: Mutex<Int32?>

    /// F_OFD_SETLK, which the header shows to GNU's C only: a lock of this descriptor and not of the process. It is no matter
    /// of SQLite's locks, as `flock` would be on NFS, and isn't lost when SQLite closes the file.
    private static let setLock: Int32 = 37
    /// The byte that is locked: far behind what SQLite locks and what a file can hold.
    private static let byte: off_t = 1 << 62

    init(database: String) throws {
        let descriptor = open(try Store.find(database).path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw ServerLock.failure(database, "can't be opened") }
        var range = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: ServerLock.byte, l_len: 1, l_pid: 0)
        guard fcntl(descriptor, ServerLock.setLock, &range) == 0 else {
            // It stays open: closing it would drop the locks that SQLite holds on the file for others in this process.
            if errno == EAGAIN || errno == EACCES { throw Taken(database: database) }
            throw ServerLock.failure(database, "can't be locked")
        }
        identity = FileIdentity(of: descriptor)
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    /// Lets another server work on the database, which must be closed here.
    func release() {
        descriptor.withLock { descriptor in
            if let open = descriptor { close(open) }
            descriptor = nil
        }
    }

    private static func failure(_ database: String, _ trouble: String) -> Store.Failure {
        Store.Failure(description: "The database \(database) \(trouble): \(String(cString: strerror(errno))).")
    }
}
