import Glibc
import Synchronization

/// The progress of a long command, on one line of the terminal. Elsewhere it shows nothing: a log needs no percentages.
final class ProgressLine: Sendable {
    private struct Line: Equatable, Sendable {
        var work = ""
        /// The hundredths that are done; nil when how far it is can't be said.
        var percent: Int?
    }

    private let isTerminal = isatty(STDERR_FILENO) != 0
    /// The line that is shown; nil when there is none.
    private let shown = Mutex<Line?>(nil)

    /// - Parameter done: `all` while the end can't be foreseen.
    func show(_ work: String, _ done: Int, of all: Int) {
        guard isTerminal else { return }
        let line = Line(work: work, percent: done < all ? done * 100 / all : nil)
        let isNew = shown.withLock { shown in
            defer { shown = line }
            return shown != line
        }
        guard isNew else { return }
        put("\r\u{1B}[K\(work)" + (line.percent.map { " \($0) %" } ?? "…"))
    }

    /// Takes the line away.
    func end() {
        let wasShown = shown.withLock { shown in
            defer { shown = nil }
            return shown != nil
        }
        if wasShown { put("\r\u{1B}[K") }
    }

    private func put(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
