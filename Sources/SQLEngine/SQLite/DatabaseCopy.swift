import CSQLite
import Glibc
import SystemSupport

/// Copies one state of a database, page by page, into a new file while others write.
///
/// All pages come from one read transaction, which sees the state committed when the copy began. It belongs to a
/// connection of its own, so the writer's thread does nothing for the copy. Until the copy ends, SQLite can't restart
/// the log, so the log grows by what is written meanwhile; `LogUpkeep` then copies the rest of it.
///
/// SQLite's online backup (https://www.sqlite.org/backup.html) begins anew when another connection writes, except
/// within such a transaction. On the writer's own connection it would begin anew with every rollback, and take its
/// time from the writes.
package struct DatabaseCopy: Sendable {
    /// Gets how many pages of a copy are done, and how many there are. It is called again while the whole copy is read. An error
    /// that it throws ends the copy.
    package typealias Progress = @Sendable (_ donePages: Int, _ allPages: Int) throws -> Void

    /// The pages copied at once: about 2 MiB, which the disk takes before the next ones. A file system may have to write
    /// out all that is unsynced before a sync of the log returns, so a copy that is synced at its end only would delay
    /// a commit by seconds.
    private static let stepPages: Int32 = 256
    private static let cacheKibibytes: Int32 = 2_048
    private static let busyMilliseconds: Int32 = 10_000

    /// The database's file.
    package let source: String
    /// The new file, which must not exist.
    package let target: String
    /// True if the copy rests after each step for as long as the step took, but at most a second, so that others get the
    /// processor and the disk.
    package let isPaced: Bool
    /// True if the whole copy is read again before it gets its name.
    package let isVerified: Bool

    package init(of source: String, to target: String, isPaced: Bool = true, isVerified: Bool = true) {
        self.source = source
        self.target = target
        self.isPaced = isPaced
        self.isVerified = isVerified
    }

    /// The name of the file until the copy is complete.
    private var draft: String { "\(target).partial-\(getpid())" }

    /// Makes the copy with mode 0600, on the calling thread. It gets its name when it is complete and on the disk:
    /// there is never half a copy under that name.
    ///
    /// - Parameter check: whether the source is still the expected one; called after it was opened and read.
    /// - Throws: `SQLError`: `cantOpen` when `target` exists, `corrupt` when the copy isn't sound, …; an error of
    ///   `progress` or `check`. Then nothing is left of the copy.
    package func make(check: () throws -> Void = {}, progress: @escaping Progress = { _, _ in }) throws {
        guard !Files.exists(target) else { throw SQLError(code: .cantOpen, message: "\(target) is there already") }
        removeDraft()
        try Files.createPrivate(draft)
        // After a success it has no name left to remove.
        defer { removeDraft() }
        try copyPages(check: check, progress: progress)
        try closeDraft(progress)
        try Files.sync(draft)
        try Files.publish(draft, as: target)
    }

    private func removeDraft() {
        for suffix in ["", "-journal", "-wal", "-shm"] { Files.remove(draft + suffix) }
    }

    private func copyPages(check: () throws -> Void, progress: Progress) throws {
        var options = DatabaseOptions()
        options.readerCacheKibibytes = Self.cacheKibibytes
        options.writerCacheKibibytes = Self.cacheKibibytes
        options.busyTimeoutMilliseconds = Self.busyMilliseconds
        let from = try Connection(path: source, access: .read, options: options)
        defer { from.close() }
        let to = try Connection(path: draft, access: .migrate, options: options)
        defer { to.close() }
        // Nobody reads a draft that a crash left, so it needs no journal in the folder.
        try to.execute("PRAGMA journal_mode = memory")
        try from.begin(.deferred)
        defer { from.rollback() }
        _ = try from.first("SELECT count(*) FROM sqlite_schema") { $0.int(0) }
        try check()
        try step(from, to, progress)
    }

    private func step(_ from: Connection, _ to: Connection, _ progress: Progress) throws {
        guard let backup = sqlite3_backup_init(to.handle, "main", from.handle, "main") else {
            throw SQLError(code: ResultCode(rawValue: sqlite3_extended_errcode(to.handle)))
        }
        defer { sqlite3_backup_finish(backup) }
        while true {
            let began = MonotonicClock.now()
            let code = sqlite3_backup_step(backup, Self.stepPages)
            guard code == SQLITE_OK || code == SQLITE_DONE else { throw SQLError(code: ResultCode(rawValue: code)) }
            let all = Int(sqlite3_backup_pagecount(backup))
            try progress(all - Int(sqlite3_backup_remaining(backup)), all)
            if code == SQLITE_DONE { return }
            try to.syncFile()
            if isPaced { usleep(UInt32(min((MonotonicClock.now() - began) / 1_000, 1_000_000))) }
        }
    }

    /// Makes the copy one file without a log, and reads all of it if it is to be verified.
    private func closeDraft(_ progress: @escaping Progress) throws {
        let connection = try Connection(path: draft, access: .migrate, options: DatabaseOptions())
        defer { connection.close() }
        guard try connection.first("PRAGMA journal_mode = delete", map: { $0.text(0) }) == "delete" else {
            throw SQLError(code: .cantOpen, message: "the copy of \(source) can't be closed")
        }
        guard isVerified else { return }
        let pages = try connection.first("PRAGMA page_count") { Int($0.int(0)) } ?? 0
        let finding = try connection.watching({ try progress(pages, pages) }) {
            try connection.first("PRAGMA integrity_check(1)") { $0.text(0) }
        }
        guard finding == "ok" else {
            throw SQLError(code: .corrupt, message: "\(source) is damaged: \(finding ?? "its copy can't be checked")")
        }
    }
}
