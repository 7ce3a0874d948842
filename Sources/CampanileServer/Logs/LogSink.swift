import Glibc
import Synchronization

/// Where log lines go: gathered in memory and written together, so that a line a request costs a copy and not a system
/// call. What was gathered is written after a tenth of a second, when it has grown, or at once for what is urgent.
package final class LogSink: Sendable {
    package enum Format: Sendable {
        /// For people at a terminal.
        case text
        /// One JSON object a line, for machines.
        case json
    }

    private static let flushBytes = 32 * 1_024
    private static let flushDelay = Duration.milliseconds(100)

    private struct State: Sendable {
        var lines: [UInt8] = []
        var isFlushPlanned = false
    }

    package let format: Format
    private let descriptor: Int32
    private let state = Mutex(State())

    /// - Parameter descriptor: an open file; 2 is standard error.
    package init(descriptor: Int32, format: Format) {
        self.descriptor = descriptor
        self.format = format
    }

    /// Standard error: readable at a terminal, JSON otherwise.
    package static let standardError = LogSink(descriptor: 2, format: isatty(2) == 1 ? .text : .json)

    /// Appends one line.
    /// - Parameter write: appends the bytes, without the line's end.
    func append(isUrgent: Bool, _ write: (inout [UInt8]) -> Void) {
        let (isPlanned, isFull) = state.withLock { state in
            write(&state.lines)
            state.lines.append(UInt8(ascii: "\n"))
            let wasPlanned = state.isFlushPlanned
            state.isFlushPlanned = true
            return (wasPlanned, state.lines.count >= LogSink.flushBytes)
        }
        if isUrgent || isFull { flush() }
        if !isPlanned {
            Task { [self] in
                try? await Task.sleep(for: LogSink.flushDelay)
                state.withLock { $0.isFlushPlanned = false }
                flush()
            }
        }
    }

    /// Writes what was gathered.
    package func flush() {
        state.withLock { state in
            guard !state.lines.isEmpty else { return }
            write(state.lines)
            state.lines.removeAll(keepingCapacity: state.lines.capacity <= 4 * LogSink.flushBytes)
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
