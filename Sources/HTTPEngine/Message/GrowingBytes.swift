import Glibc

/// A block of heap memory that grows at its end. Its owner frees it.
struct GrowingBytes {
    private var base: UnsafeMutableRawPointer?
    private var capacity = 0
    private(set) var count = 0

    /// The appended bytes, in place. Valid until the next append.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// The appended bytes, to be changed in place. Valid until the next append.
    var mutableBytes: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base, count: count) }

    /// Makes room for that many bytes in all.
    mutating func reserve(_ total: Int) {
        guard total > capacity else { return }
        let wanted = max(total, capacity * 2, 512)
        guard let larger = realloc(base, wanted) else { fatalError("Out of memory for a request of \(wanted) bytes.") }
        base = larger
        capacity = wanted
    }

    mutating func append(_ source: UnsafeRawPointer, count length: Int) {
        guard length > 0 else { return }
        reserve(count + length)
        base?.advanced(by: count).copyMemory(from: source, byteCount: length)
        count += length
    }

    /// Forgets the bytes, and frees the memory if it is more than a common request needs.
    mutating func clear(keeping limit: Int) {
        count = 0
        if capacity > limit { deallocate() }
    }

    mutating func deallocate() {
        free(base)
        base = nil
        capacity = 0
        count = 0
    }
}
