package import Glibc

/// Another program, started by a test. Foundation's `Process` isn't used: it reads a whole `dirent` of every entry of
/// /proc/self/fd, also where the kernel wrote a shorter one at the end of a page, and so it crashes now and then.
package struct ChildProgram {
    package let id: pid_t

    package struct NotStarted: Error {
        package let error: Int32
    }

    /// - Parameter output: a descriptor that gets what it prints; its errors and, without one, its output are thrown away.
    package init(_ path: String, _ arguments: [String], output: Int32? = nil) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        if let output {
            posix_spawn_file_actions_adddup2(&actions, output, 1)
        } else {
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        try ChildProgram.closeOthers(&actions)
        var started = pid_t()
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let error = posix_spawn(&started, path, &actions, nil, &words, environ)
        guard error == 0 else { throw NotStarted(error: error) }
        id = started
    }

    /// The sockets of other tests must not live on in the program. glibc has had this since 2.34; its header shows it to
    /// GNU's C only.
    private static func closeOthers(_ actions: inout posix_spawn_file_actions_t) throws {
        typealias Function = @convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32
        guard let symbol = dlsym(nil, "posix_spawn_file_actions_addclosefrom_np") else { throw NotStarted(error: ENOSYS) }
        let error = unsafeBitCast(symbol, to: Function.self)(&actions, 3)
        guard error == 0 else { throw NotStarted(error: error) }
    }

    /// Ends it at once: the threads of tests hand down a blocked SIGTERM.
    package func kill() {
        Glibc.kill(id, SIGKILL)
        waitUntilEnded()
    }

    package func waitUntilEnded() {
        var status: Int32 = 0
        while waitpid(id, &status, 0) < 0, errno == EINTR {}
    }

    /// Runs a program to its end.
    /// - Returns: what it printed.
    package static func output(of path: String, _ arguments: [String]) throws -> String {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw NotStarted(error: errno) }
        defer { close(ends[0]) }
        let program: ChildProgram
        do {
            defer { close(ends[1]) }
            program = try ChildProgram(path, arguments, output: ends[1])
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
