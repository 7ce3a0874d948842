/// What a connection knows of the request that it is at, beside the request itself. Replaced as a whole after it.
struct CurrentRequest {
    /// Which call of the library comes next. Not the stage of `StageClock`, which is for the deadlines: a refusal
    /// ends the progress and leaves the stage, and work that answers at once never gets a stage of its own, which
    /// would cost a look at the clock.
    enum Progress { case none, requestLine, body, handling, answered }

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
    var expectedBody = 0
    var isChunked = false
    /// The status of an answer that the library doesn't write; 0 without one.
    var takenStatus: UInt16 = 0
}
