import Dispatch
import Foundation
import SQLEngine
import TestSupport
import Testing

/// A folder of its own for each test, removed with its last user. With `KEEP_TEST_FILES` in the environment it is made in
/// that folder and stays.
final class Folder: Sendable {
    private static let kept = ProcessInfo.processInfo.environment["KEEP_TEST_FILES"]
    let path: String

    init() {
        path = (Folder.kept.map { $0 + "/" } ?? NSTemporaryDirectory()) + "sqlengine-" + UUID().uuidString
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        if Folder.kept == nil { try? FileManager.default.removeItem(atPath: path) }
    }

    /// The path of a file in the folder.
    func file(_ name: String = "test.sqlite") -> String {
        path + "/" + name
    }

    var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
    }
}

/// A database with one table: `things (id INTEGER PRIMARY KEY, name TEXT UNIQUE, data ANY)`.
struct Fixture {
    let folder = Folder()
    let database: Database

    init(_ change: (inout DatabaseOptions) -> Void = { _ in }) throws {
        var options = DatabaseOptions()
        // The tests' files needn't survive a power failure.
        options.synchronous = .off
        change(&options)
        database = try Database(path: folder.file(), options: options)
        try database.writeBlocking {
            try $0.connection.script("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE, data ANY) STRICT")
        }
    }

    var count: Int64 {
        get throws { try countThings(database) }
    }

    var names: [String] {
        get throws { try database.read { try $0.all("SELECT name FROM things ORDER BY id") { $0.text(0) } } }
    }
}

func countThings(_ database: Database) throws -> Int64 {
    try database.read { try $0.first("SELECT count(*) FROM things") { $0.int(0) } } ?? -1
}

@discardableResult
func insertThing(_ connection: Connection, _ name: String) throws -> Int {
    try connection.run("INSERT INTO things (name) VALUES (?1)", name)
}

/// Holds a database's writer inside a write until it is opened, so that what is submitted meanwhile waits for it.
final class Gate: Sendable {
    private let released = DispatchSemaphore(value: 0)

    /// Starts a write that runs `body` and then stands at the gate, and returns when it stands there.
    func close(
        _ database: Database, _ body: @escaping @Sendable (Connection) throws -> Void = { _ in }
    ) async -> Task<Void, any Error> {
        let (entered, continuation) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            try await database.write { [self] transaction in
                defer {
                    continuation.finish()
                    // Once open it stays open: a write may be run twice.
                    stand()
                }
                try body(transaction.connection)
            }
        }
        for await _ in entered {}
        return task
    }

    /// Stands at the gate on the calling thread.
    func stand() {
        released.wait()
        released.signal()
    }

    func open() {
        released.signal()
    }
}

/// Submits writes in the given order: each waits in the queue before the next is made.
func queueUp(
    _ database: Database, _ bodies: [@Sendable (Transaction) throws -> Void]
) async -> [Task<Void, any Error>] {
    var tasks: [Task<Void, any Error>] = []
    for body in bodies {
        let waiting = database.waitingWrites
        // It has submitted its write when it first waits.
        tasks.append(Task.immediate { try await database.write(body) })
        #expect(database.waitingWrites > waiting)
    }
    return tasks
}

/// Runs what may block on a thread of its own: the test runner's few threads are needed to end the waiting.
func onThread(_ body: @escaping @Sendable () throws -> Void) -> Task<Void, any Error> {
    let (done, continuation) = AsyncThrowingStream.makeStream(of: Void.self)
    Thread.detachNewThread {
        do {
            try body()
            continuation.finish()
        } catch {
            continuation.finish(throwing: error)
        }
    }
    return Task { for try await _ in done {} }
}

/// Runs writes as one group: they queue up behind a first one, which stands at a gate until all are there.
/// - Parameters:
///   - head: what the first one does before it stands there.
///   - meanwhile: is done when all wait.
/// - Returns: what went wrong with each of them, in order, the first one's included.
func runGroup(
    _ database: Database, after head: @escaping @Sendable (Connection) throws -> Void = { _ in },
    _ bodies: [@Sendable (Transaction) throws -> Void], meanwhile: () -> Void = {}
) async -> [SQLError?] {
    let gate = Gate()
    let first = await gate.close(database, head)
    let tasks = await queueUp(database, bodies)
    meanwhile()
    gate.open()
    return await failures([first] + tasks)
}

/// Lets no file of this process grow, as a full disk does. It is for processes that are a test's own.
/// - Returns: what lets them grow again.
func fillDisk() -> () -> Void {
    signal(SIGXFSZ, SIG_IGN)
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    var tight = limit
    tight.rlim_cur = 4096
    setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &tight)
    return { [limit] in
        var limit = limit
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    }
}

/// Returns what went wrong with each of them, in order; `nil` for those that succeeded.
func failures(_ tasks: [Task<Void, any Error>]) async -> [SQLError?] {
    var result: [SQLError?] = []
    for task in tasks {
        switch await task.result {
        case .success: result.append(nil)
        case .failure(let error): result.append(error as? SQLError ?? SQLError(code: .misuse, message: "\(error)"))
        }
    }
    return result
}

/// A count that threads share.
final class Counter: Sendable {
    private let value = Watched(0)

    func add() { value.change { $0 += 1 } }
    var current: Int { value.value }
    /// Waits until it is as high.
    func until(_ count: Int) async { await value.until { $0 >= count } }
}

struct Refused: Error, Equatable {}
