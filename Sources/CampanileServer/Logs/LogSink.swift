import Dispatch
import Glibc
package import Logging
import Synchronization

/// A log whose lines are gathered in memory and written together, so that a line a request costs a copy and not a system call.
/// The sink writes the gathered lines after a tenth of a second, or when there are many. It writes an urgent line at once.
package final class LogSink: Sendable {
    package enum Format: Sendable {
        /// For people at a terminal.
        case text
        /// One JSON object a line, for machines.
        case json
    }

    private static let flushBytes = 32 * 1_024
    private static let flushDelay = DispatchTimeInterval.milliseconds(100)
    private static let stopDelay = DispatchTimeInterval.seconds(1)

    private struct State: Sendable {
        var lines: [UInt8] = []
        var isFlushPlanned = false
        var dropped = 0
    }

    package let format: Format
    /// The place of `level` among all levels.
    private let levelIndex = Atomic<Int>(LogSink.place(of: .info))
    private let descriptor: Int32
    private let state = Mutex(State())
    /// The only place that writes, and that waits while no reader takes the lines.
    private let queue = DispatchQueue(label: "campanile.log")

    /// - Parameter descriptor: an open file; 2 is standard error.
    package init(descriptor: Int32, format: Format) {
        self.descriptor = descriptor
        self.format = format
    }

    /// The least level of the lines that are written. It may change at any time.
    package var level: Logger.Level {
        get { Logger.Level.allCases[levelIndex.load(ordering: .relaxed)] }
        set { levelIndex.store(Self.place(of: newValue), ordering: .relaxed) }
    }

    /// True if the lines of requests are written, whose level is `info`.
    var takesRequests: Bool { levelIndex.load(ordering: .relaxed) <= Self.requestPlace }

    private static let requestPlace = place(of: .info)

    private static func place(of level: Logger.Level) -> Int { Logger.Level.allCases.firstIndex(of: level) ?? 0 }

    /// Standard error: readable at a terminal, JSON otherwise.
    package static let standardError = LogSink(descriptor: 2, format: isatty(2) == 1 ? .text : .json)

    /// Appends one line. Never waits: while no reader takes lines, it drops and counts those beyond the buffer.
    /// - Parameter write: appends the bytes, without the line's end.
    func append(isUrgent: Bool, _ write: (inout [UInt8]) -> Void) {
        let (isNew, isFull) = state.withLock { state in
            guard state.lines.count < Limits.logBufferBytes else {
                state.dropped += 1
                return (false, false)
            }
            let before = state.lines.count
            write(&state.lines)
            state.lines.append(UInt8(ascii: "\n"))
            let isNew = !state.isFlushPlanned
            state.isFlushPlanned = true
            return (isNew, before < LogSink.flushBytes && state.lines.count >= LogSink.flushBytes)
        }
        if isUrgent || isFull { queue.async { [self] in writeGathered() } }
        if isNew {
            queue.asyncAfter(deadline: .now() + LogSink.flushDelay) { [self] in
                state.withLock { $0.isFlushPlanned = false }
                writeGathered()
            }
        }
    }

    /// Writes what was gathered, before the program ends; waits for a second at most.
    package func flush() {
        let done = DispatchSemaphore(value: 0)
        queue.async { [self] in
            writeGathered()
            done.signal()
        }
        _ = done.wait(timeout: .now() + LogSink.stopDelay)
    }

    private func writeGathered() {
        let (lines, dropped) = state.withLock { state in
            defer {
                state.lines = []
                state.dropped = 0
            }
            return (state.lines, state.dropped)
        }
        write(lines)
        guard dropped > 0 else { return }
        let sentence = "\(dropped) log \(dropped == 1 ? "line was" : "lines were") dropped: nobody read them in time."
        switch format {
        case .text: write(Array("\(sentence)\n".utf8))
        case .json: write(Array("{\"level\":\"warning\",\"message\":\"\(sentence)\"}\n".utf8))
        }
    }

    /// A log that can't be written must not stop the service: what doesn't go out is dropped.
    private func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes
            while let start = rest.baseAddress, !rest.isEmpty {
                let written = Glibc.write(descriptor, start, rest.count)
                if written < 0, errno == EINTR { continue }
                guard written > 0 else { return }
                rest = UnsafeRawBufferPointer(rebasing: rest[written...])
            }
        }
    }
}
