import CampanileCore
import SQLEngine
import SystemSupport

/// The work on the records of a file: how they are checked and written.
protocol RecordImport: Sendable {
    associatedtype Entry: Sendable
    /// The state that the writes of one transaction share.
    associatedtype Batch

    /// The names that a record may have, and those that the header of a CSV file must have.
    var columns: Set<String> { get }
    var required: [String] { get }

    /// - Throws: `ClientError` with every mistake of the record.
    func parse(_ members: [JSONValue.Member], number: Int, now: Timestamp) throws -> Entry
    /// Returns what writing would make of it.
    func outcome(of entry: Entry, in reading: StoreReading) throws -> ImportOutcome

    /// Names what an entry looks at and changes.
    func hints(_ entry: Entry) -> [StoreHint]

    func begin(in transaction: StoreTransaction) throws -> Batch
    /// - Returns: nil when a part of it was done, and the rest is for the next transaction.
    func write(_ entry: Entry, _ batch: inout Batch, in transaction: StoreTransaction) throws -> ImportOutcome?
    func end(_ batch: Batch, in transaction: StoreTransaction) throws
}

/// The findings and the results of an import.
package struct ImportReport: Sendable {
    package struct Mistake: Hashable, Sendable {
        package let line: Int
        package let sentence: String
    }

    /// The records of the file.
    package internal(set) var records = 0
    package internal(set) var counts: [ImportOutcome: Int] = [:]
    /// The first mistakes.
    package internal(set) var mistakes: [Mistake] = []
    package internal(set) var mistakeCount = 0
    package internal(set) var faultyRecords = 0
    /// True if it was stopped before the end.
    package internal(set) var isStopped = false

    package subscript(outcome: ImportOutcome) -> Int { counts[outcome, default: 0] }

    mutating func add(_ counted: [ImportOutcome: Int]) { counts.merge(counted) { $0 + $1 } }

    mutating func note(_ sentences: [String], line: Int) {
        faultyRecords += 1
        mistakeCount += sentences.count
        for sentence in sentences.prefix(Limits.printedMistakes - mistakes.count) {
            mistakes.append(Mistake(line: line, sentence: sentence))
        }
    }
}

/// Imports a file: all of it is checked before anything is written, and then written in small transactions.
struct FileImport<Import: RecordImport>: Sendable {
    /// Reports how far it is: bytes of a part, and all of them.
    typealias Progress = @Sendable (_ part: ImportPart, _ done: Int, _ all: Int) -> Void

    let work: Import
    let database: Store
    let world: World
    /// True if no server works on the database.
    let isAlone: Bool
    /// Reports the progress.
    let progress: Progress
    /// Returns whether it was asked to stop.
    let isStopped: @Sendable () -> Bool

    /// - Parameter isDryRun: only checks, and says what writing would do.
    /// - Throws: when the file or the database can't be used. Mistakes in the file are in the report; then nothing was written.
    func run(_ file: ImportFile, isDryRun: Bool) async throws -> ImportReport {
        // One moment for both parts: what was in the past for the check stays there.
        let now = world.now()
        var report = try check(file, now: now, foresees: isDryRun)
        guard !isDryRun, !report.isStopped, report.mistakeCount == 0 else { return report }
        try await write(file, now: now, &report)
        return report
    }

    // MARK: - Checking

    private func check(_ file: ImportFile, now: Timestamp, foresees: Bool) throws -> ImportReport {
        var report = ImportReport()
        var reader = try RecordReader(file, columns: work.columns, required: work.required)
        while let record = try reader.next() {
            report.records += 1
            do {
                let entry = try work.parse(record.content.get(), number: record.number, now: now)
                if foresees {
                    let outcome = try database.readBlocking { try work.outcome(of: entry, in: $0) }
                    report.counts[outcome, default: 0] += 1
                }
            } catch let mistake as Mistake {
                report.note([mistake.sentence], line: record.line)
            } catch let problem as ClientError where !problem.errors.isEmpty {
                report.note(problem.errors.map(\.message), line: record.line)
            }
            if record.number.isMultiple(of: 1_024) {
                progress(.check, reader.readBytes, file.size)
                report.isStopped = isStopped()
                if report.isStopped { break }
            }
        }
        return report
    }

    // MARK: - Writing

    private func write(_ file: ImportFile, now: Timestamp, _ report: inout ImportReport) async throws {
        var log = database.file.map { GrowingLog(path: $0.path) }
        var reader = try RecordReader(file, columns: work.columns, required: work.required)
        var isAtEnd = false
        while !isAtEnd {
            var entries: [Import.Entry] = []
            while entries.count < Limits.importedPerTransaction {
                guard let record = try reader.next() else {
                    isAtEnd = true
                    break
                }
                do {
                    entries.append(try work.parse(record.content.get(), number: record.number, now: now))
                } catch {
                    throw OperatorError("\(file.name) changed while it was read.")
                }
            }
            var left = entries[...]
            while !left.isEmpty {
                let (written, counts) = try await write(left)
                left = left.dropFirst(written)
                report.add(counts)
                if isStopped() {
                    report.isStopped = true
                    return
                }
                if !isAlone { try await rest(&log) }
            }
            progress(.write, reader.readBytes, file.size)
        }
    }

    /// Writes as many as one transaction may.
    /// - Returns: how many, and what became of them.
    private func write(
        _ entries: ArraySlice<Import.Entry>
    ) async throws -> (written: Int, counts: [ImportOutcome: Int]) {
        let turn = isAlone ? Limits.importAloneMilliseconds : Limits.importTurnMilliseconds
        let entries = isAlone ? entries : entries.prefix(database.importedBesideServer)
        // All at once and in one order: a node that writes to the same inboxes waits, and isn't waited for in a circle.
        let hints = entries.flatMap(work.hints)
        var tries = 0
        while true {
            do {
                return try await database.write(hints: hints) { [work, world] transaction in
                    let end = world.monotonic() + turn * 1_000_000
                    var counts: [ImportOutcome: Int] = [:]
                    var written = 0
                    var batch = try work.begin(in: transaction)
                    for entry in entries {
                        guard let outcome = try work.write(entry, &batch, in: transaction) else { break }
                        counts[outcome, default: 0] += 1
                        written += 1
                        if world.monotonic() >= end { break }
                    }
                    try work.end(batch, in: transaction)
                    return (written, counts)
                }
            } catch let error as SQLError where (error.code.primary == .busy || error.code == .serialization) && tries < 30 {
                // A server has much to write; it goes first. (Of two that wait for each other PostgreSQL ends one.)
                tries += 1
            }
        }
    }

    /// Lets the server write, and copy the log, which only it does.
    private func rest(_ log: inout GrowingLog?) async throws {
        let pause = log?.hasGrown() == true ? Limits.importLogPauseMilliseconds : Limits.importPauseMilliseconds
        try await Task.sleep(for: .milliseconds(pause))
    }
}

/// The two parts of an import.
package enum ImportPart: Sendable { case check, write }

/// The write-ahead log of a database that another process copies.
private struct GrowingLog {
    private let path: String
    private var limit: Int

    init(path: String) {
        self.path = path + "-wal"
        limit = max(File.size(self.path) ?? 0, Limits.importLogBytes) + Limits.importLogBytes
    }

    /// Returns whether it has grown much since the last time that it had.
    mutating func hasGrown() -> Bool {
        guard let size = File.size(path), size > limit else { return false }
        limit = size + Limits.importLogBytes
        return true
    }
}
