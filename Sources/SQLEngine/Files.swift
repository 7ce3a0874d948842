import Glibc
import SystemSupport

/// The engine's own work on files.
enum Files {
    /// Creates an empty file with mode 0600 if there is none.
    ///
    /// `mknod` and not `open`: closing a descriptor of a file that SQLite has open in the same process would drop
    /// SQLite's locks on it (https://www.sqlite.org/howtocorrupt.html, section 2.2). The `-wal` and `-shm` files take
    /// the mode of the database.
    ///
    /// - Returns: whether the file is new.
    /// - Throws: `SQLError` (`cantOpen`) with the reason.
    @discardableResult
    static func createPrivate(_ path: String) throws -> Bool {
        if mknod(path, S_IFREG | 0o600, 0) == 0 { return true }
        if errno == EEXIST { return false }
        throw failure("can't create", path)
    }

    static func exists(_ path: String) -> Bool {
        access(path, F_OK) == 0
    }

    static func remove(_ path: String) {
        unlink(path)
    }

    /// Syncs a file's content and its name in the folder, so that both survive a power failure.
    static func sync(_ path: String) throws {
        try syncOne(path)
        try syncOne(folder(of: path))
    }

    /// Gives a file another name, which must not be taken, and syncs the folder.
    static func publish(_ draft: String, as name: String) throws {
        let reason = File.rename(draft, toNew: name)
        guard reason == 0 else { throw SQLError(code: .cantOpen, message: "can't make \(name): \(describe(reason))") }
        try syncOne(folder(of: name))
    }

    private static func syncOne(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("can't open", path) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("can't sync", path) }
    }

    /// The folder a file lies in.
    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// A name that SQLite doesn't take for a URI.
    static func plainName(_ path: String) -> String {
        path.hasPrefix("file:") ? "./\(path)" : path
    }

    static func describe(_ reason: Int32) -> String {
        String(cString: strerror(reason))
    }

    static func failure(_ action: String, _ path: String) -> SQLError {
        SQLError(code: .cantOpen, message: "\(action) \(path): \(describe(errno))")
    }
}
