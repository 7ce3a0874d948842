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
