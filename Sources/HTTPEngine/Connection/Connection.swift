import CMicroHTTPD
import Synchronization

/// One client connection: the library's handle, the request in progress and the answer that it waits for.
///
/// Sendable, because `stages` is atomic, `suspension` has a lock, `slot` and `isTaken` are touched only under the table's
/// lock, and everything else only on the connection's daemon thread, which the library never changes.
final class Connection: @unchecked Sendable {
    let handle: OpaquePointer
    let socket: Int32
    /// The address of the other end.
    let peerAddress: IPAddress?
    let number: UInt64
    /// The number of its daemon thread among the server's.
    let worker: Int
    let engine: Engine
    let stages: StageClock
    let suspension = Mutex(Suspension())

    /// Place in the connection table.
    var slot = 0
    /// True once the application has the socket. Then the engine must not shut it down.
    var isTaken = false
    var request: Request
    var current = CurrentRequest()
    /// Bytes of all requests so far, heads and bodies; nil after a chunked request, whose framing isn't counted.
    var requestBytes: Int? = 0

    private let begun = Atomic<UInt64>(0)
    private let ended = Atomic<UInt64>(0)

    init(handle: OpaquePointer, socket: Int32, number: UInt64, worker: Int, startedAt: UInt64, engine: Engine) {
        self.handle = handle
        self.socket = socket
        peerAddress = cmhd_peer(handle).flatMap { IPAddress($0) }
        self.number = number
        self.worker = worker
        self.engine = engine
        stages = StageClock(now: startedAt)
        request = Request(fieldCapacity: engine.limits.headerCount, connections: engine.table)
    }

    /// Requests begun and ended. Only the daemon's thread writes them, hence a load and a store, no read-modify-write.
    /// A thread that sees a request ended also sees the stage after it.
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
            request = Request(fieldCapacity: engine.limits.headerCount, connections: engine.table)
        }
        current = CurrentRequest()
    }
}
