import CMicroHTTPD
import Synchronization

/// One client connection: the library's handle, the request in progress and the answer that is being waited for.
///
/// Sendable, because `stages` is atomic, `exchange` has a lock, `slot` is touched only under the table's lock, and
/// everything else only on the connection's daemon thread, which the library never changes.
final class Connection: @unchecked Sendable {
    /// How far the request on this connection is.
    enum Progress { case none, requestLine, body, handling, answered }

    let handle: OpaquePointer
    let socket: Int32
    let number: UInt64
    let startedAt: UInt64
    let engine: Engine
    let stages: StageClock
    let exchange = Mutex(Exchange())

    /// Place in the connection table.
    var slot = 0
    var request: Request
    var progress = Progress.none
    /// Found in the request line, answered when the head is complete.
    var refusal: Refusal?
    /// Where the library keeps the request target and how long it is: see HeadReader.
    var targetAddress: UInt = 0
    var targetLength = 0
    /// Bytes of a body over the limit that were thrown away.
    var excess = 0
    var expectedBody = 0
    var isChunked = false

    private let begun = Atomic<UInt64>(0)
    private let ended = Atomic<UInt64>(0)

    init(handle: OpaquePointer, socket: Int32, number: UInt64, startedAt: UInt64, engine: Engine) {
        self.handle = handle
        self.socket = socket
        self.number = number
        self.startedAt = startedAt
        self.engine = engine
        stages = StageClock(now: startedAt)
        request = Request(fieldCapacity: engine.limits.headerCount)
    }

    /// Requests begun and ended. Written only by the daemon's thread, hence a load and a store, no read-modify-write.
    /// Who sees a request ended also sees the stage after it.
    var requestCounts: (begun: UInt64, ended: UInt64) {
        (begun.load(ordering: .acquiring), ended.load(ordering: .acquiring))
    }

    func countBegun() -> UInt64 {
        let value = begun.load(ordering: .relaxed) &+ 1
        begun.store(value, ordering: .releasing)
        return value
    }

    func countEnded() { ended.store(ended.load(ordering: .relaxed) &+ 1, ordering: .releasing) }

    /// After a request: the object serves the next one, unless the application still holds it.
    func recycleRequest() {
        if isKnownUniquelyReferenced(&request) {
            // The last other owner's release must have happened before what follows is written.
            atomicMemoryFence(ordering: .acquiring)
            request.reset()
        } else {
            request = Request(fieldCapacity: engine.limits.headerCount)
        }
        progress = .none
        refusal = nil
        excess = 0
        expectedBody = 0
        isChunked = false
    }
}

/// The race between a handler that finishes and a connection that suspends, decided under one lock.
struct Exchange {
    enum Phase {
        /// Nothing is being waited for.
        case idle
        /// The work was started and hasn't finished; the connection isn't suspended yet.
        case running
        /// The connection is suspended; whoever changes this phase resumes it, once.
        case suspended
        /// The work has finished.
        case answered(Response)
        /// The server stops before the work has finished.
        case aborted
    }

    /// What the daemon's thread is to do.
    enum Decision {
        case answer(Response)
        case suspended
        case refuse
    }

    private var phase = Phase.idle
    /// Tells the work of this request from work that outlived an earlier one.
    private var ticket: UInt64 = 0

    mutating func begin() -> UInt64 {
        ticket &+= 1
        phase = .running
        return ticket
    }

    /// The work has an answer. - Returns: whether the connection must be resumed.
    mutating func finish(_ response: Response, ticket: UInt64) -> Bool {
        guard ticket == self.ticket else { return false }
        switch phase {
        case .running:
            phase = .answered(response)
            return false
        case .suspended:
            phase = .answered(response)
            return true
        case .idle, .answered, .aborted:
            return false
        }
    }

    /// The daemon's thread comes back from starting the work, or is called again after a resumption.
    /// - Parameters:
    ///   - stopping: whether the server stops, so that nothing may be suspended any more.
    ///   - suspend: suspends the connection.
    mutating func settle(stopping: Bool, suspend: () -> Void) -> Decision {
        switch phase {
        case .answered(let response):
            phase = .idle
            return .answer(response)
        case .running where !stopping:
            phase = .suspended
            suspend()
            return .suspended
        case .suspended:
            return .suspended
        case .running, .aborted, .idle:
            phase = .idle
            return .refuse
        }
    }

    /// The server stops. - Returns: whether the connection must be resumed.
    mutating func abort() -> Bool {
        guard case .suspended = phase else { return false }
        phase = .aborted
        return true
    }

    /// The request is over, with or without an answer.
    mutating func end() {
        ticket &+= 1
        phase = .idle
    }
}
