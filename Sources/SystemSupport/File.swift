import Glibc

package enum File {
    /// The bytes of a file; nil if it can't be looked at.
    package static func size(_ path: String) -> Int? {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : nil
    }

    /// Gives a file another name, unless that is taken.
    /// - Returns: 0, or the system's error: `EEXIST` when the name is taken.
    package static func rename(_ path: String, toNew name: String) -> Int32 {
        // rename(2) alone would replace a file that came meanwhile.
        if link(path, name) == 0 {
            unlink(path)
            return 0
        }
        let reason = errno
        // Some file systems, mostly others' shares, know no second name.
        guard reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS, access(name, F_OK) != 0 else { return reason }
        return Glibc.rename(path, name) == 0 ? 0 : errno
    }

    /// Has the disk keep a file's content, or the names in a folder.
    /// - Returns: 0, or the system's error.
    package static func sync(_ path: String) -> Int32 {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        return fsync(descriptor) == 0 ? 0 : errno
    }

    /// Nil when there is nothing at the path, or it can't be looked at.
    package static func isDirectory(_ path: String) -> Bool? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & S_IFMT == S_IFDIR : nil
    }

    /// Returns the names in a folder, in no order.
    package static func names(in folder: String) throws(SystemError) -> [String] {
        guard let directory = opendir(folder) else {
            throw SystemError(folder, "can't be read: \(SystemError(code: errno))")
        }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { start in
                start.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Reads a small file whole.
    /// - Parameter limit: the most bytes it may have.
    package static func read(_ path: String, limit: Int) throws(SystemError) -> [UInt8] {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemError(path, refusal(errno)) }
        guard status.st_mode & S_IFMT != S_IFDIR else { throw SystemError(path, "is a directory") }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemError(path, refusal(errno)) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit + 1, 64 * 1_024))
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            guard count > 0 || errno == EINTR else { throw SystemError(path, refusal(errno)) }
            bytes += chunk.prefix(max(0, count))
            guard bytes.count <= limit else { throw SystemError(path, "is larger than \(limit) bytes") }
        }
    }

    /// The system's reason for not opening or reading a file.
    private static func refusal(_ code: Int32) -> String {
        code == ENOENT || code == ENOTDIR ? "isn't there" : "can't be read: \(SystemError(code: code))"
    }
}
