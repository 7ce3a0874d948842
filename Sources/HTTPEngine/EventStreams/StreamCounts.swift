import Synchronization

/// The counts of a loop since its start.
package struct StreamStatistics: Sendable, Equatable {
    /// Streams whose owners haven't learned of an end.
    package var open: Int
    package var opened: UInt64
    /// Bytes that the kernel has taken.
    package var bytesSent: UInt64
    package var cutAsTooSlow: UInt64
}

/// The counters behind them. Only the loop's thread writes them, hence loads and stores and nothing that locks the bus.
final class StreamCounts: Sendable {
    private let openedCount = Atomic<UInt64>(0)
    private let closedCount = Atomic<UInt64>(0)
    private let bytesCount = Atomic<UInt64>(0)
    private let cutCount = Atomic<UInt64>(0)

    func opened() { openedCount.store(openedCount.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
    func closed() { closedCount.store(closedCount.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
    func cut() { cutCount.store(cutCount.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
    func sent(_ count: Int) {
        bytesCount.store(bytesCount.load(ordering: .relaxed) &+ UInt64(count), ordering: .relaxed)
    }

    var statistics: StreamStatistics {
        // Closed first: then every stream counted as closed is also counted as opened.
        let closed = closedCount.load(ordering: .acquiring)
        let opened = openedCount.load(ordering: .acquiring)
        return StreamStatistics(
            open: Int(opened - closed), opened: opened, bytesSent: bytesCount.load(ordering: .relaxed),
            cutAsTooSlow: cutCount.load(ordering: .acquiring))
    }
}
