/// The finished bytes of a response body: one heap object whose tail is the storage.
///
/// libmicrohttpd sends straight from it and releases it when the last byte is out, so a body is written once and
/// never copied.
///
/// Sendable, because only the ByteBuffer that makes it writes to it, and only until `finish()`.
package struct ResponseBytes: @unchecked Sendable {
    let storage: Storage

    init(storage: Storage) { self.storage = storage }

    /// The heap object. Its header is the number of bytes used.
    final class Storage: ManagedBuffer<Int, UInt8> {
        static func make(capacity: Int) -> Storage {
            unsafeDowncast(Storage.create(minimumCapacity: capacity) { _ in 0 }, to: Storage.self)
        }

        /// The number of bytes used. Through a pointer, because the property itself is checked at run time.
        var used: UnsafeMutablePointer<Int> { withUnsafeMutablePointerToHeader { $0 } }

        /// The address of the bytes. Valid as long as the object lives.
        var base: UnsafeMutableRawPointer { withUnsafeMutablePointerToElements { UnsafeMutableRawPointer($0) } }
    }

    /// The number of bytes.
    package var count: Int { storage.used.pointee }

    /// Reads the bytes where they are.
    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        storage.withUnsafeMutablePointers { count, elements in
            body(UnsafeRawBufferPointer(start: elements, count: count.pointee))
        }
    }
}

/// A growing buffer for the bodies of hot answers: appended to in place, then handed to the library without a copy.
package struct ByteBuffer: ~Copyable {
    private var storage: ResponseBytes.Storage
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    /// The number of bytes appended so far.
    package private(set) var count: Int

    /// - Parameter capacity: bytes that fit before the buffer grows. A good estimate saves copies.
    package init(capacity: Int = 256) {
        let capacity = Swift.max(capacity, 32)
        storage = ResponseBytes.Storage.make(capacity: capacity)
        base = storage.base
        self.capacity = capacity
        count = 0
    }

    /// Makes room for that many bytes more.
    package mutating func reserve(_ additional: Int) {
        if count &+ additional > capacity { grow(additional) }
    }

    mutating func grow(_ additional: Int) {
        let wanted = Swift.max(capacity * 2, count + additional)
        let larger = ResponseBytes.Storage.make(capacity: wanted)
        larger.base.copyMemory(from: base, byteCount: count)
        storage = larger
        base = larger.base
        capacity = wanted
    }

    package mutating func append(_ byte: UInt8) {
        reserve(1)
        base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
        count &+= 1
    }

    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        reserve(bytes.count)
        (base + count).copyMemory(from: source, byteCount: bytes.count)
        count &+= bytes.count
    }

    package mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    package mutating func append(_ literal: StaticString) {
        append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends an integer in decimal. One function for each type, not a generic one: across modules that would be
    /// compiled unspecialised and cost a microsecond.
    package mutating func append(_ integer: UInt64) {
        reserve(20)
        count &+= Decimal.write(integer, to: base + count)
    }

    package mutating func append(_ integer: Int64) {
        if integer < 0 { append(UInt8(ascii: "-")) }
        append(integer.magnitude)
    }

    package mutating func append(_ integer: Int) { append(Int64(integer)) }

    /// Lets `body` write into the free tail.
    /// - Parameters:
    ///   - upTo: how many bytes it may write.
    ///   - body: writes from the start of the buffer it is given and returns how many bytes it wrote.
    package mutating func append(upTo: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        reserve(upTo)
        let written = body(UnsafeMutableRawBufferPointer(start: base + count, count: upTo))
        precondition(written >= 0 && written <= upTo, "A writer wrote more than it asked room for.")
        count &+= written
    }

    /// Ends the writing and returns the bytes for a response.
    package consuming func finish() -> ResponseBytes {
        storage.used.pointee = count
        return ResponseBytes(storage: storage)
    }
}

/// Decimal digits without a String.
enum Decimal {
    /// Writes a number at a place with room for 20 bytes.
    /// - Returns: how many digits were written.
    static func write(_ value: UInt64, to target: UnsafeMutableRawPointer) -> Int {
        var rest = value
        var length = 1
        while rest >= 10 {
            rest /= 10
            length += 1
        }
        rest = value
        for index in stride(from: length - 1, through: 0, by: -1) {
            target.storeBytes(of: UInt8(truncatingIfNeeded: rest % 10) &+ 0x30, toByteOffset: index, as: UInt8.self)
            rest /= 10
        }
        return length
    }
}
