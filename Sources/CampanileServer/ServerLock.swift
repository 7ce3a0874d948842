import Glibc
import Synchronization

/// One server at a time works on a database: two couriers would push twice. The kernel gives the lock back when the process
/// ends, however it ends. Commands that only write beside a running server don't take it.
final class ServerLock: Sendable {
    struct Taken: Error, CustomStringConvertible {
        let path: String
        var description: String { "Another campanile serves this database: it holds \(path)." }
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private let descriptor: Mutex<Int32?>

    init(database: String) throws {
        let path = database + ".lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw Failure(description: "\(path) can't be opened: \(String(cString: strerror(errno))).")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw Taken(path: path)
        }
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    /// Lets another server work on the database.
    func release() {
        descriptor.withLock { descriptor in
            if let open = descriptor { close(open) }
            descriptor = nil
        }
    }
}
