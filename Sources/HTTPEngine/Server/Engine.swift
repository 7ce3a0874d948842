import CMicroHTTPD
import Glibc
import Synchronization

/// The part shared by all connections: the application's functions, the limits and the state of the server.
final class Engine: Sendable {
    let limits: Limits
    let clock: @Sendable () -> UInt64
    let handler: Handler
    let finish: Finish
    let completed: @Sendable (Request, Int, UInt64) -> Void
    let table = ConnectionTable()
    /// From now on every answer says `Connection: close`.
    let draining = Atomic<Bool>(false)
    /// From now on nothing may be suspended.
    let stopping = Atomic<Bool>(false)

    init(
        limits: Limits, clock: @escaping @Sendable () -> UInt64, handler: @escaping Handler,
        finish: @escaping Finish,
        completed: @escaping @Sendable (Request, Int, UInt64) -> Void
    ) {
        self.limits = limits
        self.clock = clock
        self.handler = handler
        self.finish = finish
        self.completed = completed
    }

    /// - Returns: how many connections had overstayed.
    @discardableResult
    func sweep() -> Int {
        table.noticeHangups()
        return table.shutDownOverdue(now: clock(), limits: limits)
    }

    /// Resumes every suspended connection with a refusal: the library aborts the process if it is stopped while one is
    /// suspended. Set `stopping` before.
    func resumeSuspended() {
        table.forEach { connection in
            connection.suspension.withLock { suspension in
                if suspension.abort() { MHD_resume_connection(connection.handle) }
            }
        }
    }
}
