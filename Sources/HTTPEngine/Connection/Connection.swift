import CMicroHTTPD
import Synchronization

/// One client connection: the library's handle, the request in progress and the answer that is being waited for.
///
/// Sendable, because `stages` is atomic, `suspension` has a lock, `slot` and `isTaken` are touched only under the table's lock, and
/// everything else only on the connection's daemon thread, which the library never changes.
final class Connection: @unchecked Sendable {
    /// How far the request on this connection is.
    enum Progress { case none, requestLine, body, handling, answered }

    let handle: OpaquePointer
    let socket: Int32
    /// The address of the other end.
    let peerAddress: IPAddress?
    let number: UInt64
    let startedAt: UInt64
    let engine: Engine
    let stages: StageClock
    let suspension = Mutex(Suspension())

    /// Place in the connection table.
    var slot = 0
    /// Whether the application has the socket, so that nobody here may shut it down.
    var isTaken = false
    var request: Request
    var progress = Progress.none
    /// Whether the request's work was started in a task.
    var hasWork = false
    /// Whether the library has called in a way in which it may be told to suspend the connection.
    var maySuspend = MicroHTTPD075.maySuspendAtOnce
    /// Found in the request line, answered when the head is complete.
    var refusal: Refusal?
    /// Where the library keeps the request target and how long it is: see HeadReader.
    var targetAddress: UInt = 0
    var targetLength = 0
    /// Where the head ends in the library's buffer, and the size of its header section: for the trailers.
    var headEnd: UInt = 0
    var headerBytes = 0
    /// Bytes of a body over the limit that were thrown away.
    var excess = 0
    var expectedBody = 0
    var isChunked = false
    /// Bytes of all requests so far, heads and bodies; nil once one was chunked, whose framing isn't counted.
    var requestBytes: Int? = 0
    /// The status of an answer that the library doesn't write; 0 without one.
    var takenStatus: UInt16 = 0

    private let begun = Atomic<UInt64>(0)
    private let ended = Atomic<UInt64>(0)

    init(handle: OpaquePointer, socket: Int32, number: UInt64, startedAt: UInt64, engine: Engine) {
        self.handle = handle
        self.socket = socket
        peerAddress = cmhd_peer(handle).flatMap { IPAddress($0) }
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
        maySuspend = MicroHTTPD075.maySuspendAtOnce
    }
}
