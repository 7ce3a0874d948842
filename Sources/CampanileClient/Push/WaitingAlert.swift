import Foundation

/// An alert that waits for its image. It is shown once: with the image, or without it as soon as there is none or the
/// time is over.
final class WaitingAlert: Sendable {
    /// Nil once it has been shown.
    private let waiting: Locked<(@Sendable (URL?) -> Void)?>
    private let fetch = Locked<Task<Void, Never>?>(nil)

    /// - Parameter show: shows the alert with the image's file, which is then its own; nil: without one.
    init(_ show: @escaping @Sendable (_ image: URL?) -> Void) { waiting = Locked(show) }

    /// Begins to wait, and shows the alert when the image is there, or when it is sure that none comes.
    /// - Parameter image: gets the image into a file; nil if there is none.
    func wait(for image: @escaping @Sendable () async -> URL?) {
        let task = Task {
            let file = await image()
            guard !show(file), let file else { return }
            try? FileManager.default.removeItem(at: file)
        }
        fetch.withLock { $0 = task }
    }

    /// Shows the alert as it stands, if that hasn't been done, and gives the image up.
    func endWait() {
        show(nil)
        fetch.withLock { $0 }?.cancel()
    }

    /// - Returns: false when it had been shown.
    @discardableResult
    private func show(_ image: URL?) -> Bool {
        let show = waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
        show?(image)
        return show != nil
    }
}
