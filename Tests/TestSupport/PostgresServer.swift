import Dispatch
import Glibc
import Synchronization

/// A PostgreSQL server of Debian's packages for tests, in a folder of its own, on a free port of 127.0.0.1 and a socket in the
/// folder. It ends with the test process, however that ends. PostgreSQL refuses to run as root, so then it runs as the user
/// `postgres`.
///
package final class PostgresServer: Sendable {
    package struct Failed: Error, CustomStringConvertible {
        package let description: String
    }

    /// The one that tests share who don't stop it. Made with the first use.
    package static let shared = Result { try PostgresServer() }

    package let folder: String
    package let port: Int
    private let programs: String
    private let state = Mutex(State())

    private struct State {
        var process: ServerProcess?
        var databases = 0
    }

    /// - Parameter settings: as `max_connections=20`.
    package init(settings: [String] = []) throws {
        guard let programs = Self.programs else {
            throw Failed(description: "PostgreSQL is missing: scripts/setup.sh unit installs it")
        }
        self.programs = programs
        folder = try Self.makeFolder()
        port = try Self.freePort()
        try run("initdb", "-D", "\(folder)/data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        try write(
            """
            listen_addresses = '127.0.0.1'
            port = \(port)
            unix_socket_directories = '\(folder)'
            fsync = off
            full_page_writes = off
            shared_buffers = 32MB
            max_connections = 200
            timezone = UTC
            \(settings.joined(separator: "\n"))

            """)
        try start()
    }

    deinit {
        stop(.immediate)
        Self.folders.withLock { $0[folder] = nil }
        Self.remove(folder)
    }

    // MARK: - Addresses

    /// Makes an empty database and returns its address.
    package func makeDatabase() throws -> String {
        let number = state.withLock { state in
            state.databases += 1
            return state.databases
        }
        try execute("CREATE DATABASE test_\(number) STRATEGY wal_log")
        return address("test_\(number)")
    }

    /// Runs statements in the database `postgres`, each by itself.
    package func execute(_ statements: String...) throws {
        for statement in statements {
            try run("psql", "-h", folder, "-p", "\(port)", "-U", "owner", "-d", "postgres", "-q", "-c", statement)
        }
    }

    /// By the socket in the folder, or by 127.0.0.1.
    package func address(_ database: String, tcp: Bool = false) -> String {
        let host = tcp ? "127.0.0.1" : folder.replacing("/", with: "%2F")
        // Patient, because the machine may be busy with other tests.
        return "postgres://owner@\(host):\(port)/\(database)?connect_timeout=60"
    }

    // MARK: - Running

    /// How it is stopped: https://www.postgresql.org/docs/15/server-shutdown.html
    package enum Stop: Sendable {
        /// Ends the sessions.
        case fast
        /// As a crash.
        case immediate
    }

    /// Starts the server and waits until it answers.
    package func start() throws {
        let log = open("\(folder)/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(log) }
        let (program, words) = Self.asUser(["--pdeathsig", "QUIT"], "\(programs)/postgres", ["-D", "\(folder)/data"])
        let process = try ServerProcess(program, words, errors: log)
        state.withLock { $0.process = process }
        Self.folders.withLock { $0[folder] = process.id }
        for _ in 0..<3_000 {
            let ready = try? ChildProgram("\(programs)/pg_isready", ["-q", "-h", folder, "-p", "\(port)"])
            if ready?.waitUntilEnded() == 0 { return }
            usleep(10_000)
        }
        throw Failed(description: "the server doesn't start: see \(folder)/log")
    }

    /// Has a stopped server begin as a standby, which `pg_promote` ends: with another timeline.
    package func becomeStandby() throws {
        guard let file = fopen("\(folder)/data/standby.signal", "w") else { throw Failed(description: "no standby.signal") }
        fclose(file)
    }

    package func stop(_ how: Stop) {
        let process = state.withLock { state in
            defer { state.process = nil }
            return state.process
        }
        guard let process else { return }
        kill(process.id, how == .fast ? SIGINT : SIGQUIT)
        process.waitUntilEnded()
        Self.folders.withLock { $0[folder] = .some(nil) }
    }

    private func run(_ program: String, _ arguments: String...) throws {
        let (program, words) = Self.asUser([], "\(programs)/\(program)", arguments)
        let log = open("\(folder).log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(log) }
        let status = try ChildProgram(program, words, output: log, errors: log).waitUntilEnded()
        guard status == 0 else { throw Failed(description: "\(words) ended with \(status): see \(folder).log") }
    }

    private func write(_ settings: String) throws {
        let path = "\(folder)/data/postgresql.auto.conf"
        guard let file = fopen(path, "a") else { throw Failed(description: "can't write \(path)") }
        fputs(settings, file)
        fclose(file)
    }

    // MARK: - The machine

    private static let isRoot = getuid() == 0

    private static func asUser(_ options: [String], _ program: String, _ arguments: [String]) -> (String, [String]) {
        let user = isRoot ? ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] : []
        return ("/usr/bin/setpriv", user + options + [program] + arguments)
    }

    private static let programs: String? = {
        var found = glob_t()
        defer { globfree(&found) }
        guard glob("/usr/lib/postgresql/*/bin", 0, nil, &found) == 0 else { return nil }
        return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
            .max { version($0) < version($1) }
    }()

    private static func version(_ path: String) -> Int { path.split(separator: "/").compactMap { Int($0) }.first ?? 0 }

    private static func makeFolder() throws -> String {
        // A socket's path has little room, and the user postgres must come in.
        removeOld
        cleanUp
        var template = Array("/tmp/campanile-pg-\(getpid())-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw Failed(description: "no folder in /tmp") }
        let path = String(cString: made)
        if isRoot, let user = getpwnam("postgres") { chown(path, user.pointee.pw_uid, user.pointee.pw_gid) }
        return path
    }

    private static func remove(_ folder: String) {
        _ = try? ChildProgram("/bin/rm", ["-rf", folder, folder + ".log"]).waitUntilEnded()
    }

    /// One below those that the scripts take and that the kernel gives to whoever asks for any: nobody gets it before the server
    /// listens, or while it is restarted.
    private static func freePort() throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 10_000..<20_000)
            let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(socket) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            let isFree = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            if isFree { return port }
        }
        throw Failed(description: "no free port")
    }

    /// The folders to be removed when the process ends, and the processes to be ended.
    private static let folders = Mutex<[String: pid_t?]>([:])

    /// Removes what processes left that were killed.
    private static let removeOld: Void = {
        var found = glob_t()
        defer { globfree(&found) }
        guard glob("/tmp/campanile-pg-*-*", 0, nil, &found) == 0 else { return }
        for path in (0..<Int(found.gl_pathc)).compactMap({ found.gl_pathv[$0].map { String(cString: $0) } }) {
            let process = path.split(separator: "-").dropFirst(2).first.flatMap { pid_t($0) }
            if let process, kill(process, 0) != 0, errno == ESRCH { remove(path) }
        }
    }()

    private static let cleanUp: Void = {
        _ = atexit {
            for (folder, process) in PostgresServer.folders.withLock({ $0 }) {
                if let process {
                    kill(process, SIGQUIT)
                    for _ in 0..<500 where kill(process, 0) == 0 { usleep(10_000) }
                }
                PostgresServer.remove(folder)
            }
        }
    }()
}

/// The server's process. The kernel ends it when the thread ends that started it, so that thread waits for its end.
///
private final class ServerProcess: Sendable {
    private let ended = DispatchSemaphore(value: 0)
    let id: pid_t

    init(_ program: String, _ arguments: [String], errors: Int32) throws {
        let (changed, ended) = (DispatchSemaphore(value: 0), self.ended)
        let box = Started()
        startThread {
            let child = Result { try ChildProgram(program, arguments, output: errors, errors: errors) }
            box.result.withLock { $0 = child }
            changed.signal()
            _ = try? child.get().waitUntilEnded()
            ended.signal()
        }
        changed.wait()
        guard let child = box.result.withLock({ $0 }) else { throw PostgresServer.Failed(description: "no thread") }
        id = try child.get().id
    }

    func waitUntilEnded() {
        ended.wait()
        ended.signal()
    }

    private final class Started: Sendable {
        let result = Mutex<Result<ChildProgram, any Error>?>(nil)
    }
}
