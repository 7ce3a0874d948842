/// Immutable bytes, shared by reference: encoded once, sent to many streams.
package struct StreamBytes: Sendable {
    let bytes: ResponseBytes

    /// Without a copy.
    package init(_ bytes: ResponseBytes) { self.bytes = bytes }

    package init(_ bytes: [UInt8]) {
        var buffer = ByteBuffer(capacity: bytes.count)
        buffer.append(bytes)
        self.init(buffer.finish())
    }

    package init(_ text: String) {
        var buffer = ByteBuffer(capacity: text.utf8.count)
        buffer.append(text)
        self.init(buffer.finish())
    }

    /// The number of bytes.
    package var count: Int { bytes.count }

    /// The bytes in place. Valid as long as this value lives.
    var base: UnsafeMutableRawPointer { bytes.storage.base }
}
