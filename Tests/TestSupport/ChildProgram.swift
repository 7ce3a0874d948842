package import Glibc
import Synchronization

/// Another program, started by a test. Foundation's `Process` isn't used: it reads a whole `dirent` of every entry of
/// /proc/self/fd, also where the kernel wrote a shorter one at the end of a page, and so it crashes now and then.
///
/// It ends with its object at the latest. One that ended and that nobody waited for would keep Swift Testing from seeing the
/// children of exit tests: the library waits for any child, and the system names the oldest that ended, again and again.
package final class ChildProgram: Sendable {
    package let id: pid_t
    /// As `waitUntilEnded` returns it; nil until it was waited for. Afterwards the number may be another program's.
    private let status = Mutex<Int32?>(nil)

    package struct NotStarted: Error {
        package let error: Int32

        package init(error: Int32) { self.error = error }
    }

    /// It begins with every signal unblocked and with its default action, whatever the tests' threads do with them.
    /// - Parameters:
    ///   - environment: variables beside the tests' own.
    ///   - output: a descriptor that gets what it prints; without one it is thrown away.
    ///   - errors: the same for what it prints to standard error.
    ///   - handedDown: a descriptor that it gets as number 3.
    package init(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], output: Int32? = nil,
        errors: Int32? = nil, handedDown: Int32? = nil
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for (descriptor, wanted) in [(Int32(1), output), (2, errors)] {
            if let wanted {
                posix_spawn_file_actions_adddup2(&actions, wanted, descriptor)
            } else {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
            }
        }
        if let handedDown { posix_spawn_file_actions_adddup2(&actions, handedDown, 3) }
        try ChildProgram.closeOthers(&actions, from: handedDown == nil ? 3 : 4)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        ChildProgram.resetSignals(&attributes)
        var started = pid_t()
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        var variables = ChildProgram.variables(environment).map { strdup($0) } + [nil]
        defer { for word in words + variables { free(word) } }
        let error = posix_spawn(&started, path, &actions, &attributes, &words, &variables)
        guard error == 0 else { throw NotStarted(error: error) }
        id = started
    }

    private static func resetSignals(_ attributes: inout posix_spawnattr_t) {
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    }

    private static func variables(_ more: [String: String]) -> [String] {
        var own: [String] = []
        var entry = environ
        while let text = entry.pointee {
            own.append(String(cString: text))
            entry += 1
        }
        return own.filter { entry in !more.keys.contains { entry.hasPrefix($0 + "=") } } + more.map { "\($0)=\($1)" }
    }

    /// The sockets of other tests must not live on in the program. glibc has had this since 2.34; its header shows it to
    /// GNU's C only.
    private static func closeOthers(_ actions: inout posix_spawn_file_actions_t, from first: Int32) throws {
        typealias Function = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        guard let symbol = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") else { throw NotStarted(error: ENOSYS) }
        let error = unsafeBitCast(symbol, to: Function.self)(&actions, first)
        guard error == 0 else { throw NotStarted(error: error) }
    }

    deinit { kill() }

    /// Ends it at once, unless it was waited for.
    package func kill() {
        guard status.withLock({ $0 == nil }) else { return }
        Glibc.kill(id, SIGKILL)
        waitUntilEnded()
    }

    /// - Returns: its exit status, or 128 and the number of the signal that ended it.
    @discardableResult
    package func waitUntilEnded() -> Int32 {
        // Not under the lock: another thread may end it.
        var ended = siginfo_t()
        while waitid(P_PID, id_t(id), &ended, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        return status.withLock { known in
            if let known { return known }
            var status: Int32 = 0
            while waitpid(id, &status, 0) < 0, errno == EINTR {}
            let code = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
            known = code
            return code
        }
    }

    /// Runs a program to its end.
    /// - Returns: what it printed.
    package static func output(
        of path: String, _ arguments: [String], environment: [String: String] = [:]
    ) throws -> String {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw NotStarted(error: errno) }
        defer { close(ends[0]) }
        let program: ChildProgram
        do {
            defer { close(ends[1]) }
            program = try ChildProgram(path, arguments, environment: environment, output: ends[1])
        }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(ends[0], &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        program.waitUntilEnded()
        return String(decoding: bytes, as: UTF8.self)
    }
}
