/// The limits of one stream. All sizes are bytes, all times nanoseconds.
package struct StreamLimits: Sendable {
    /// Bytes kept for a stream when the kernel takes no more. A stream that needs more is cut as too slow.
    package var pendingBytes = 64 * 1_024
    /// The longest that pending bytes may wait without any going out, before the stream is cut as too slow. The kernel gives up a
    /// client that acknowledges nothing after the same time.
    package var stall: UInt64 = 30_000_000_000
    /// The longest silence before a heartbeat. A heartbeat comes at random after three quarters to all of it, to the
    /// second, so that streams written to together don't beat together.
    package var heartbeat: UInt64 = 20_000_000_000
    /// From `finish` to the end: the time for pending bytes to leave and for the client to hang up.
    package var finish: UInt64 = 5_000_000_000
    /// Bytes that a client may send in a stream's life. The loop reads and discards them, and cuts a client that sends
    /// more.
    package var incomingBytes: Int32 = 64 * 1_024
    /// The kernel's buffer for unacknowledged bytes. Without a limit, the kernel lets it grow to megabytes for a client
    /// that reads nothing.
    package var sendBufferBytes: Int32 = 64 * 1_024

    package init() {}
}
