import Glibc
import Synchronization

/// The progress of a long command, on one line of the terminal. Elsewhere it shows nothing: a log needs no percentages.
final class ProgressLine: Sendable {
    private let title: String
    private let isShown = isatty(STDERR_FILENO) != 0
    /// The percentage on the line; -1: the line is empty.
    private let shown = Atomic<Int>(-1)

    init(_ title: String) { self.title = title }

    func show(_ done: Int, of all: Int) {
        let percent = all > 0 ? done * 100 / all : 100
        guard isShown, shown.exchange(percent, ordering: .relaxed) != percent else { return }
        put("\r\(title) \(percent) %")
    }

    /// Takes the line away.
    func end() {
        if isShown, shown.exchange(-1, ordering: .relaxed) >= 0 { put("\r\u{1B}[K") }
    }

    private func put(_ text: String) {
        let bytes = Array(text.utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
