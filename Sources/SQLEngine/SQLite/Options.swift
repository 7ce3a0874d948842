import SystemSupport

/// The options of a database. All defaults suit a server.
package struct DatabaseOptions: Sendable {
    /// When a commit is on the disk. Source: https://www.sqlite.org/pragma.html#pragma_synchronous
    package enum Synchronous: String, Sendable, CaseIterable {
        /// One fsync for each commit: a power failure loses nothing acknowledged.
        case full
        /// A power failure may lose the last commits; the file stays sound.
        case normal
        /// A power failure may destroy the file. For measurements.
        case off
    }

    package var synchronous: Synchronous = .full
    /// How long a statement waits for a lock that another process holds before it fails with `busy`.
    package var busyTimeoutMilliseconds: Int32 = 2000
    /// Bytes a page of a new file; a power of two from 512 to 65536. An existing file keeps its own.
    package var pageSize: Int32 = 8192
    /// The most waiting writes; one more fails with `queueFull`.
    package var writerQueueLimit = 4096
    /// The most writes committed together.
    package var writerBatchLimit = 512
    /// Page cache of each read connection. Filled as pages are read.
    package var readerCacheKibibytes: Int32 = 2048
    /// Page cache of the write connection.
    package var writerCacheKibibytes: Int32 = 8192
    /// Pages by which the log grows before it is copied into the file, in the background.
    package var walAutocheckpointPages = 1000
    /// How many times `walAutocheckpointPages` the log may grow during the copy; then the writer waits.
    package static let checkpointGrowth = 4
    /// The background copy may leave one in so many of `walAutocheckpointPages` to the writer.
    package static let checkpointRemainder = 12
    /// Milliseconds until the retry of a copy that failed or that a reader of an old state stopped.
    package var checkpointRetryMilliseconds = 1_000
    /// Milliseconds between two notices that the log can't be copied.
    package static let logNoticeMilliseconds = 60_000
    /// Bytes that the log's file keeps when SQLite restarts the log.
    package var logBytesKept = 64 * 1_024 * 1_024
    /// The clock for `Transaction.milliseconds`, in milliseconds since 1970.
    package var clock: @Sendable () -> Int64 = WallClock.milliseconds

    package init() {}
}
