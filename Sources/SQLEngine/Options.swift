import SystemSupport

/// How a database is opened. Everything has a sound default for a server.
package struct DatabaseOptions: Sendable {
    /// When a commit is on the disk. Source: https://www.sqlite.org/pragma.html#pragma_synchronous
    package enum Synchronous: String, Sendable, CaseIterable {
        /// One fsync a commit: nothing acknowledged is lost when the power fails.
        case full
        /// The last commits may be lost when the power fails; the file stays sound.
        case normal
        /// The file may be destroyed when the power fails. For measurements.
        case off
    }

    package var synchronous: Synchronous = .full
    /// How long a statement waits for a lock that another process holds before it fails with `busy`.
    package var busyTimeoutMilliseconds: Int32 = 2000
    /// Bytes a page of a new file; a power of two from 512 to 65536. An existing file keeps its own.
    package var pageSize: Int32 = 8192
    /// Writes that may wait; one more fails with `queueFull`.
    package var writerQueueLimit = 4096
    /// Writes that are committed together at most.
    package var writerBatchLimit = 512
    /// Page cache of each read connection. Filled as pages are read.
    package var readerCacheKibibytes: Int32 = 2048
    /// Page cache of the write connection.
    package var writerCacheKibibytes: Int32 = 8192
    /// The log is copied into the file, in the background, when it has grown by this many pages.
    package var walAutocheckpointPages = 1000
    /// How many times as many the log may grow while it is copied; then the writer waits.
    package static let checkpointGrowth = 4
    /// The part of as many that the copy in the background may leave to the writer: one in so many.
    package static let checkpointRemainder = 12
    /// Milliseconds until a copy that failed, or that a reader of an old state stopped, is tried again.
    package var checkpointRetryMilliseconds = 1_000
    /// Milliseconds in which it is told once that the log can't be copied.
    package static let logNoticeMilliseconds = 60_000
    /// Bytes of the log's file that are kept when the log is begun anew.
    package var logBytesKept = 64 * 1_024 * 1_024
    /// The time that a write is given (`Transaction.milliseconds`), in milliseconds since 1970.
    package var clock: @Sendable () -> Int64 = WallClock.milliseconds

    package init() {}
}
