import Glibc

/// Which file a name leads to: the same for every name of one file, and no other file's while somebody has it open.
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

    /// - Returns: nil with `errno` when the name leads to no file.
    init?(of name: String) {
        var status = stat()
        guard stat(name, &status) == 0 else { return nil }
        self.init(status)
    }
}

/// A database's file, found under the name that was given.
package struct DatabaseFile: Sendable {
    /// As it was given. It must go on leading to this file, or the next start won't find what is written now.
    package let name: String
    /// The same, but where it is a symbolic link, what that leads to. SQLite names the log after it, and everything else
    /// that is kept beside the file stands there too.
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

    /// Where the file is that a name leads to, also when there is none yet. Nil: the name is a link that leads nowhere.
    package static func path(_ name: String) -> String? {
        var status = stat()
        guard lstat(name, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else { return name }
        guard let resolved = realpath(name, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// What became of the files of a database that is open, so that nothing is written to them.
enum Displacement: Equatable, Sendable {
    case gone
    case hidden(Int32)
    case replaced
    case logGone
    case logReplaced
    /// The disk failed to sync while the log was copied into the file. Linux takes the pages for written from then on, and only
    /// the log holds them for certain: it stays, SQLite is told that nothing of it was copied, and all of it is copied anew.
    case unsynced

    /// Its message goes on after "The database can't be written:".
    var error: SQLError {
        let message =
            switch self {
            case .gone: "its file was removed or moved away"
            case .hidden(let reason): "its file can't be looked at: \(Files.describe(reason))"
            case .replaced: "another file stands in its place"
            case .logGone, .logReplaced: "the log that belongs to it (-wal, -shm) was removed or replaced"
            case .unsynced: "the disk failed to sync its file. Its log (-wal) holds everything, and is copied into it anew"
            }
        return SQLError(code: self == .unsynced ? .ioErrorSync : .displaced, message: message)
    }
}

/// The files that a database was opened as, to be held against what stands under their names. Whoever writes to files that
/// nobody finds again acknowledges what is lost.
///
/// SQLite keeps them open as long as the database is, so none of them can be another file with the same identity. They are
/// looked at by name and never opened here: closing them would drop SQLite's locks
/// (https://www.sqlite.org/howtocorrupt.html, section 2.2).
struct OpenFiles: Sendable {
    let file: DatabaseFile
    private let log: FileIdentity
    private let index: FileIdentity

    /// For a database that was opened, and read from, since the file was found.
    init(_ file: DatabaseFile) throws {
        guard FileIdentity(of: file.name) == file.identity, let log = FileIdentity(of: file.path + "-wal"),
            let index = FileIdentity(of: file.path + "-shm")
        else { throw SQLError(code: .cantOpen, message: "\(file.name) was taken away while it was opened") }
        self.file = file
        self.log = log
        self.index = index
    }

    /// What became of them, if they aren't those that were opened. Three calls of the system.
    var displacement: Displacement? {
        guard let found = FileIdentity(of: file.name) else {
            return errno == ENOENT || errno == ENOTDIR ? .gone : .hidden(errno)
        }
        guard found == file.identity else { return .replaced }
        guard let log = FileIdentity(of: file.path + "-wal") else { return .logGone }
        return log == self.log && FileIdentity(of: file.path + "-shm") == index ? nil : .logReplaced
    }
}
