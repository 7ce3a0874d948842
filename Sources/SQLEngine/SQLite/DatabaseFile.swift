import Glibc

/// The identity of a file: the same for all its names, and no other file's while it is open.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt
    private let inode: UInt

    /// - Returns: nil when it isn't open.
    package init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    init(_ status: stat) {
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
    }

    /// - Returns: nil, with `errno` set, when the name leads to no file.
    package init?(of name: String) {
        var status = stat()
        guard stat(name, &status) == 0 else { return nil }
        self.init(status)
    }
}

/// A database's file, found under a given name.
package struct DatabaseFile: Sendable {
    /// The name as given. It must keep leading to this file, or the next start won't find the present writes.
    package let name: String
    /// The name with a symbolic link resolved. SQLite names the log after it, and the other files beside the database are there
    /// too.
    package let path: String
    package let identity: FileIdentity

    /// Makes an empty file with mode 0600 if there is none.
    ///
    /// - Throws: `SQLError` (`cantOpen`) with the reason.
    package init(_ name: String) throws {
        guard !name.isEmpty, name != ":memory:", !name.utf8.contains(0) else {
            throw SQLError(code: .cantOpen, message: "\"\(name)\" can't be the name of a database file")
        }
        guard let path = DatabaseFile.path(name) else {
            throw SQLError(code: .cantOpen, message: "\(name) is a symbolic link to a file that isn't there")
        }
        try Files.createPrivate(path)
        var status = stat()
        guard stat(path, &status) == 0 else { throw Files.failure("can't look at", path) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw SQLError(code: .cantOpen, message: "\(name) is no file")
        }
        guard status.st_nlink <= 1 else {
            throw SQLError(
                code: .cantOpen,
                message: "\(name) has \(status.st_nlink) hard links, and SQLite keeps a log for each name: what is written"
                    + " under one is lost under the other. Remove the other names, or put a copy in this one's place")
        }
        self.name = name
        self.path = path
        identity = FileIdentity(status)
    }

    /// Gives a closed database another name, which must not be taken, and syncs the folder.
    package static func publish(_ draft: String, as name: String) throws {
        try Files.publish(draft, as: name)
    }

    /// The path of the file that a name leads to, even if the file doesn't exist yet. Nil: the name is a link that
    /// leads nowhere.
    package static func path(_ name: String) -> String? {
        var status = stat()
        guard lstat(name, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else { return name }
        guard let resolved = realpath(name, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// Why an open database's files must not be written.
enum Displacement: Equatable, Sendable {
    case gone
    case hidden(Int32)
    case replaced
    case logGone
    case logReplaced
    /// The disk failed to sync while the log was copied into the file. From then on Linux takes the pages for written,
    /// and only the log holds them for certain. So the engine keeps the log, makes SQLite treat it as not copied, and
    /// copies all of it again.
    case unsynced

    /// Its message continues "The database can't be written:".
    var error: SQLError {
        let message =
            switch self {
            case .gone: "its file was removed or moved away"
            case .hidden(let reason): "its file can't be checked: \(Files.describe(reason))"
            case .replaced: "another file is in its place"
            case .logGone, .logReplaced: "its log (-wal, -shm) was removed or replaced"
            case .unsynced: "the disk failed to sync its file. Its log (-wal) holds everything, and is being copied into it again"
            }
        return SQLError(code: self == .unsynced ? .ioErrorSync : .displaced, message: message)
    }
}

/// The files of an open database, for comparison with the files under their names. A write to a file that no name leads
/// to would be acknowledged and lost.
///
/// SQLite keeps them open as long as the database, so no other file can have their identity. This checks them by name
/// and never opens them: closing them would drop SQLite's locks (https://www.sqlite.org/howtocorrupt.html, section
/// 2.2).
struct OpenFiles: Sendable {
    let file: DatabaseFile
    private let log: FileIdentity
    private let index: FileIdentity

    /// For a database that was opened, and read, after the file was found.
    init(_ file: DatabaseFile) throws {
        guard FileIdentity(of: file.name) == file.identity, let log = FileIdentity(of: file.path + "-wal"),
            let index = FileIdentity(of: file.path + "-shm")
        else { throw SQLError(code: .cantOpen, message: "\(file.name) was taken away while it was opened") }
        self.file = file
        self.log = log
        self.index = index
    }

    /// How the files under the names differ from the open ones; nil if they don't. Makes three system calls.
    var displacement: Displacement? {
        guard let found = FileIdentity(of: file.name) else {
            return errno == ENOENT || errno == ENOTDIR ? .gone : .hidden(errno)
        }
        guard found == file.identity else { return .replaced }
        guard let log = FileIdentity(of: file.path + "-wal") else { return .logGone }
        return log == self.log && FileIdentity(of: file.path + "-shm") == index ? nil : .logReplaced
    }
}
