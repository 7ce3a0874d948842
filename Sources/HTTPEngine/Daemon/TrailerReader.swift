import CMicroHTTPD

/// Checks the fields after a chunked body (RFC 9112, section 7.1.2). Nobody reads them, but a trailer section that is
/// read in two ways ends in two places. The addresses tell what they tell about a head: see HeadReader.
///
/// What this can't see: how the last line of the section ended.
struct TrailerReader {
    /// Where the next field's name must begin; 0 before the first.
    private var cursor: UInt = 0
    private var isWellFormed = true

    /// Whether the trailers of a request, if it has any, follow the grammar.
    static func isWellFormed(_ handle: OpaquePointer) -> Bool {
        var reader = TrailerReader()
        withUnsafeMutablePointer(to: &reader) { reader in
            _ = MHD_get_connection_values_n(handle, .FOOTER_KIND, { reader, _, name, nameLength, value, valueLength in
                guard let reader = reader?.assumingMemoryBound(to: TrailerReader.self), let name, let value else { return .NO }
                let nameBytes = UnsafeRawBufferPointer(start: name, count: nameLength)
                let valueBytes = UnsafeRawBufferPointer(start: value, count: valueLength)
                reader.pointee.isWellFormed = reader.pointee.take(nameBytes, valueBytes)
                return reader.pointee.isWellFormed ? .YES : .NO
            }, reader)
        }
        return reader.isWellFormed
    }

    private mutating func take(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        guard FieldSyntax.isToken(name), FieldSyntax.isFieldValue(value) else { return false }
        guard HeadReader.layoutIsKnown else { return true }
        let nameAddress = UInt(bitPattern: name.baseAddress)
        let valueAddress = UInt(bitPattern: value.baseAddress)
        guard cursor == 0 || nameAddress == cursor, valueAddress > nameAddress + UInt(name.count) else { return false }
        cursor = valueAddress + UInt(value.count) + 2
        return true
    }
}
