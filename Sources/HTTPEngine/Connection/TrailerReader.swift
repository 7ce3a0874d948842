import CMicroHTTPD

/// Checks the fields after a chunked body (RFC 9112, section 7.1.2). The application doesn't read them. But a trailer
/// section that two parsers read differently ends in two places, and trailers share the connection's memory, and so the
/// limits, with the header fields. The addresses show the same faults as in a head: see HeadReader.
///
/// The reader can't see how the section's last line ended.
struct TrailerReader {
    private let headEnd: UInt
    /// Fields of head and trailers that are still allowed, and their bytes.
    private var fieldsLeft: Int
    private let bytesLeft: Int
    /// The addresses at which the section begins, and at which the next field's name must begin; 0 before the first.
    private var start: UInt = 0
    private var cursor: UInt = 0
    private var refusal: Refusal?

    /// Returns the reason why a request is refused for its trailers, if it has any.
    static func refusal(_ connection: Connection) -> Refusal? {
        var reader = TrailerReader(connection)
        withUnsafeMutablePointer(to: &reader) { reader in
            _ = MHD_get_connection_values_n(
                connection.handle, .FOOTER_KIND,
                { reader, _, name, nameLength, value, valueLength in
                    guard let reader = reader?.assumingMemoryBound(to: TrailerReader.self), let name, let value else {
                        return .NO
                    }
                    let nameBytes = UnsafeRawBufferPointer(start: name, count: nameLength)
                    let valueBytes = UnsafeRawBufferPointer(start: value, count: valueLength)
                    reader.pointee.refusal = reader.pointee.take(nameBytes, valueBytes)
                    return reader.pointee.refusal == nil ? .YES : .NO
                }, reader)
        }
        return reader.refusal
    }

    private init(_ connection: Connection) {
        headEnd = connection.current.headEnd
        fieldsLeft = connection.engine.limits.headerCount - connection.request.contents.pointee.fieldCount
        bytesLeft = connection.engine.limits.headerBytes - connection.current.headerBytes
    }

    private mutating func take(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Refusal? {
        let nameAddress = UInt(bitPattern: name.baseAddress)
        if MicroHTTPD075.isFieldOfHead(nameAddress, headEnd: headEnd) { return nil }
        guard FieldSyntax.isToken(name), FieldSyntax.isFieldValue(value) else { return Self.malformed }
        fieldsLeft -= 1
        guard fieldsLeft >= 0 else { return .headersTooLarge }
        guard MicroHTTPD075.addressesTell else { return nil }
        let valueAddress = UInt(bitPattern: value.baseAddress)
        guard cursor == 0 || nameAddress == cursor, valueAddress > nameAddress + UInt(name.count) else { return Self.malformed }
        if cursor == 0 { start = nameAddress }
        cursor = valueAddress + UInt(value.count) + 2
        return cursor - start <= UInt(max(0, bytesLeft)) ? nil : .headersTooLarge
    }

    private static let malformed = Refusal.malformed("The trailer section is malformed.")
}
