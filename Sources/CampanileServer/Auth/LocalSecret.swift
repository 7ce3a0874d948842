package import CampanileCore
import Glibc
import SQLEngine
import SystemSupport

/// The signing secret of a server that was given none: 32 random bytes in a file beside the database that only its owner
/// can read. Made once, so that tokens outlive a restart.
package enum LocalSecret {
    /// The end of its name, after the database's.
    static let suffix = ".jwt_secret"

    package static func path(besideDatabase database: String) -> String {
        let name = database + suffix
        // A database that was given as a symbolic link has it beside the file itself, so that all of its names have the same.
        guard access(name, F_OK) != 0, let file = DatabaseFile.path(database) else { return name }
        return file + suffix
    }

    /// - Returns: the secret, and whether it was made just now.
    package static func readOrMake(
        besideDatabase database: String, world: World
    ) throws -> (secret: Secret, isNew: Bool) {
        let path = path(besideDatabase: database)
        if access(path, F_OK) == 0 { return (try read(path), false) }
        let secret = Base64URL.encode(world.randomBytes(32))
        return try write(secret, to: path) ? (Secret(secret), true) : (try read(path), false)
    }

    /// The outcome of a copy.
    enum Copy: Sendable {
        /// There is none to copy: the secret is in the configuration.
        case none
        case made
        /// The other file was there already, and stays.
        case taken
    }

    /// Copies the secret from beside one database to beside another, for a backup or from one.
    static func copy(from database: String, to other: String) throws -> Copy {
        let source = path(besideDatabase: database)
        guard access(source, F_OK) == 0 else { return .none }
        return try write(read(source).exposed, to: path(besideDatabase: other)) ? .made : .taken
    }

    /// Writes a secret to a file, whole: under another name, which it then changes. No reader ever sees half a secret, and
    /// of two programs that start at once one makes it and the other reads it.
    /// - Returns: false when the file is there already.
    private static func write(_ secret: String, to path: String) throws -> Bool {
        let draft = "\(path).\(getpid())"
        unlink(draft)
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("The secret \(path) can't be written") }
        defer {
            close(descriptor)
            unlink(draft)
        }
        let text = Array((secret + "\n").utf8)
        guard Glibc.write(descriptor, text, text.count) == text.count, fsync(descriptor) == 0 else {
            throw failure("The secret \(path) can't be written")
        }
        let reason = File.rename(draft, toNew: path)
        if reason == EEXIST { return false }
        errno = reason
        guard reason == 0 else { throw failure("The secret \(path) can't be written") }
        // Else a power failure may take the name, and the next start would make another secret.
        errno = File.sync(path.lastIndex(of: "/").map { String(path[...$0]) } ?? ".")
        guard errno == 0 else { throw failure("The secret \(path) can't be written") }
        return true
    }

    private static func read(_ path: String) throws -> Secret {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("The secret \(path) can't be read") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 1_024)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        let text = String(decoding: bytes.prefix(max(count, 0)).prefix { $0 > 0x20 }, as: UTF8.self)
        guard text.utf8.count >= 32 else {
            throw OperatorError("The secret \(path) is damaged: it must hold at least 32 bytes. Remove it to get a new one.")
        }
        return Secret(text)
    }

    private static func failure(_ sentence: String) -> OperatorError {
        OperatorError("\(sentence): \(String(cString: strerror(errno))).")
    }
}
