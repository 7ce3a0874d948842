/// A connection's state for its current request, beside the request itself. It is replaced as a whole when the request is over.
struct CurrentRequest {
    /// The library's next call. It differs from the stage of `StageClock`, which is for the deadlines: a refusal ends
    /// the progress and leaves the stage, and work that answers at once gets no stage of its own, to save a reading of
    /// the clock.
    enum Progress { case none, requestLine, body, handling, answered }

    var progress = Progress.none
    /// True once the request's work was started in a task.
    var hasWork = false
    /// True if the library's present call allows the connection to be suspended.
    var maySuspend = MicroHTTPD075.maySuspendAtOnce
    /// A fault of the request line; the engine answers it when the head is complete.
    var refusal: Refusal?
    /// The address and the length of the request target where the library keeps it: see HeadReader.
    var targetAddress: UInt = 0
    var targetLength = 0
    /// The end of the head in the library's buffer, and the size of its header section: for the trailers.
    var headEnd: UInt = 0
    var headerBytes = 0
    var expectedBody = 0
    var isChunked = false
    /// The status of an answer that the library doesn't write; 0 without one.
    var takenStatus: UInt16 = 0
    /// True once the application has been told that the request is over. The rest of a refused body comes after that.
    var isReported = false
}
