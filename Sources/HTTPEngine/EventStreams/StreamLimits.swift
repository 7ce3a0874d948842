/// How much of everything one stream may use. All sizes are bytes, all times nanoseconds.
package struct StreamLimits: Sendable {
    /// What is kept for a stream when the kernel takes no more. A stream that needs more is cut as too slow.
    package var pendingBytes = 64 * 1_024
    /// How long a stream may have something pending of which nothing goes. It is cut as too slow then. The kernel
    /// gives a client that acknowledges nothing up after the same time.
    package var stall: UInt64 = 30_000_000_000
    /// After this long without a write, at the latest, a stream gets a heartbeat; at the earliest after three quarters of
    /// it, by chance, so that streams that were written to together don't beat together. To the second.
    package var heartbeat: UInt64 = 20_000_000_000
    /// From `finish` to the end: the time for what is pending to leave and for the client to hang up.
    package var finish: UInt64 = 5_000_000_000
    /// What a client may send in a stream's life. It is read and thrown away; one that sends more is cut.
    package var incomingBytes: Int32 = 64 * 1_024
    /// The kernel's buffer for what the client hasn't acknowledged. Left to itself, the kernel lets it grow to
    /// megabytes for a client that reads nothing.
    package var sendBufferBytes: Int32 = 64 * 1_024

    package init() {}
}
