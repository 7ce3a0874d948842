import Glibc
package import Synchronization

/// Numbers that one thread at a time adds to and any thread reads. To add is a load and a store: there is no lock, and no
/// other processor waits. They begin and end with a cache line, so that two threads' numbers share none.
///
/// Sendable, because the cells are atomic and never move, and both pointers are only read after `init`.
package final class Counters: @unchecked Sendable {
    /// Processors fetch lines of 64 bytes in pairs.
    private static let lineBytes = 128

    @usableFromInline let cells: UnsafeMutablePointer<Atomic<UInt64>>
    private let memory: UnsafeMutableRawPointer

    /// - Parameter count: how many numbers, all 0.
    package init(count: Int) {
        let lines = (count * MemoryLayout<Atomic<UInt64>>.stride + Self.lineBytes - 1) / Self.lineBytes
        // Not `allocate`, which would have to be filled: pages of calloc's that nobody counts in cost no memory.
        guard let memory = calloc(lines + 1, Self.lineBytes) else { fatalError("There is no memory for counters.") }
        self.memory = memory
        // An atomic number's bytes are the number's: these are zeros.
        cells = memory.alignedUp(toMultipleOf: Self.lineBytes).bindMemory(to: Atomic<UInt64>.self, capacity: count)
    }

    deinit { free(memory) }

    @inlinable
    package func add(_ amount: UInt64, at index: Int) {
        let sum = cells[index].load(ordering: .relaxed) &+ amount
        cells[index].store(sum, ordering: .relaxed)
    }

    /// The present number.
    @inlinable
    package subscript(index: Int) -> UInt64 { cells[index].load(ordering: .relaxed) }
}
