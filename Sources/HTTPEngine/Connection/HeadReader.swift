import CMicroHTTPD
import Glibc

/// Copies a request's head out of the library's buffer and checks it byte by byte.
///
/// The library parses the head where it received it, so the addresses show what the strings hide: see
/// `MicroHTTPD075.addressesTell`. In a clean head, method, target, version and every field follow each other at exactly
/// known distances: one byte for a space or colon, two for CRLF, and the head ends two bytes after the last line. A
/// bare LF leaves one byte, a NUL inside a value or a folded line leaves more or moves the field elsewhere, a line that
/// begins with a NUL ends the library's header section early. The reader refuses any deviation. It compares only
/// addresses.
///
/// It can't see a NUL in the place of a CR, because the library overwrites the CR with a NUL.
struct HeadReader {
    let request: Request
    private let headAddress: UInt
    private let headSize: Int
    /// The offset at which the head begins in the request's storage.
    private let headOffset: Int
    /// The address at which the next field's name must begin.
    private var cursor: UInt
    private let addressesTell: Bool

    /// A head as it was read.
    struct Head {
        /// The reason why the request is refused.
        var refusal: Refusal?
        /// The announced length of the body; 0 without a Content-Length.
        var contentLength: UInt64 = 0
        var isChunked = false
        /// Bytes from the first field name to the end of the empty line.
        var sectionSize = 0
    }

    private var refusal: Refusal?
    private var hosts = 0
    private var contentLengths = 0
    private var transferEncodings = 0
    private var contentLength: UInt64 = 0

    /// Reads the head of a request whose target is already in its storage.
    static func read(
        _ connection: Connection, method: UnsafePointer<CChar>, version: UnsafePointer<CChar>
    ) -> Head {
        let request = connection.request
        let methodBytes = UnsafeRawBufferPointer(start: method, count: strlen(method))
        request.contents.pointee.method = Method(bytes: methodBytes)
        request.contents.pointee.isHTTP10 = version[7] == CChar(bitPattern: UInt8(ascii: "0"))
        if let refusal = connection.current.refusal { return Head(refusal: refusal) }
        guard FieldSyntax.isToken(methodBytes) else { return Head(refusal: .malformed("The request method is not a token.")) }
        let lineEnd = UInt(bitPattern: version) + 8
        if MicroHTTPD075.addressesTell {
            guard connection.current.targetAddress == UInt(bitPattern: method) + UInt(methodBytes.count) + 1,
                UInt(bitPattern: version) == connection.current.targetAddress + UInt(connection.current.targetLength) + 1
            else { return Head(refusal: .malformed("The request line is malformed.")) }
        }
        switch RequestTarget.parse(request.rawTarget, method: request.method) {
        case .success(let target): request.contents.pointee.target = target
        case .failure(let refusal): return Head(refusal: refusal)
        }
        let headSize = cmhd_head_size(connection.handle)
        let sectionSize = headSize - min(headSize, Int(bitPattern: lineEnd - UInt(bitPattern: method)) + 2)
        guard sectionSize <= connection.engine.limits.headerBytes else { return Head(refusal: .headersTooLarge) }
        var reader = HeadReader(connection.request, head: method, size: headSize, lineEnd: lineEnd)
        var head = reader.readFields(connection.handle)
        head.sectionSize = sectionSize
        return head
    }

    private init(_ request: Request, head: UnsafePointer<CChar>, size: Int, lineEnd: UInt) {
        self.request = request
        headAddress = UInt(bitPattern: head)
        headSize = size
        headOffset = request.storage.count
        cursor = lineEnd + 2
        addressesTell = MicroHTTPD075.addressesTell
        request.contents.pointee.storage.append(head, count: size)
    }

    private mutating func readFields(_ handle: OpaquePointer) -> Head {
        withUnsafeMutablePointer(to: &self) { reader in
            _ = MHD_get_connection_values_n(
                handle, .HEADER_KIND,
                { reader, _, name, nameLength, value, valueLength in
                    guard let reader = reader?.assumingMemoryBound(to: HeadReader.self), let name, let value else { return .NO }
                    reader.pointee.refusal = reader.pointee.take(name, nameLength, value, valueLength)
                    return reader.pointee.refusal == nil ? .YES : .NO
                }, reader)
        }
        if refusal == nil { refusal = conclude() }
        return Head(refusal: refusal, contentLength: contentLength, isChunked: transferEncodings > 0)
    }

    /// Checks one field and enters it in the request's table.
    private mutating func take(
        _ name: UnsafePointer<CChar>, _ nameLength: Int, _ value: UnsafePointer<CChar>, _ valueLength: Int
    ) -> Refusal? {
        if MicroHTTPD075.isOwnCookie(name) { return nil }
        let nameAddress = UInt(bitPattern: name)
        let valueAddress = UInt(bitPattern: value)
        var nameOffset = Int(bitPattern: nameAddress &- headAddress)
        var valueOffset = Int(bitPattern: valueAddress &- headAddress)
        let isInHead =
            nameOffset >= 0 && nameOffset + nameLength <= headSize
            && valueOffset >= 0 && valueOffset + valueLength <= headSize
        if addressesTell {
            guard isInHead, nameAddress == cursor, valueAddress > nameAddress + UInt(nameLength) else {
                return .malformed("A header line is folded, holds a NUL or doesn't end with CRLF.")
            }
            cursor = valueAddress + UInt(valueLength) + 2
        }
        if isInHead {
            nameOffset += headOffset
            valueOffset += headOffset
        } else {
            nameOffset = request.storage.count
            request.contents.pointee.storage.append(name, count: nameLength)
            valueOffset = request.storage.count
            request.contents.pointee.storage.append(value, count: valueLength)
        }
        let bytes = request.contents.pointee.storage.mutableBytes
        let nameBytes = UnsafeMutableRawBufferPointer(rebasing: bytes[nameOffset..<nameOffset + nameLength])
        guard FieldSyntax.lowercaseToken(nameBytes) else { return .malformed("A header name is not a token.") }
        let valueBytes = UnsafeRawBufferPointer(rebasing: bytes[valueOffset..<valueOffset + valueLength])
        guard FieldSyntax.isFieldValue(valueBytes) else { return .malformed("A header value holds a control character.") }
        let field = Request.Field(
            name: Int32(nameOffset), nameLength: Int32(nameLength), value: Int32(valueOffset), valueLength: Int32(valueLength))
        guard request.addField(field) else { return .headersTooLarge }
        return checkFraming(UnsafeRawBufferPointer(nameBytes), valueBytes)
    }

    /// Checks the fields that decide where a message ends and whom it is for. Refuses a field that two parsers could
    /// read differently (RFC 9112, sections 3.2, 6.1 and 6.3).
    private mutating func checkFraming(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Refusal? {
        switch name.count {
        case 4 where name.equals("host"):
            hosts += 1
            guard hosts == 1 else { return .malformed("There is more than one Host header.") }
            var end = value.count
            while end > 0, value[end - 1] == 0x20 || value[end - 1] == 0x09 { end -= 1 }
            return FieldSyntax.isHost(value.slice(0..<end)) ? nil : .malformed("The Host header is malformed.")
        case 14 where name.equals("content-length"):
            contentLengths += 1
            guard contentLengths == 1 else { return .malformed("There is more than one Content-Length header.") }
            guard let length = FieldSyntax.contentLength(value) else {
                return .malformed("The Content-Length header is malformed.")
            }
            contentLength = length
            return nil
        case 17 where name.equals("transfer-encoding"):
            transferEncodings += 1
            guard transferEncodings == 1, value.equalsIgnoringCase("chunked") else {
                return .malformed("The only transfer coding understood is one chunked.")
            }
            return nil
        default:
            return nil
        }
    }

    /// The checks that need all fields.
    private func conclude() -> Refusal? {
        if addressesTell, cursor + 2 != headAddress + UInt(headSize) {
            return .malformed("The header section doesn't end with an empty line of CRLF.")
        }
        if transferEncodings > 0, contentLengths > 0 {
            return .malformed("Content-Length and Transfer-Encoding exclude each other.")
        }
        if transferEncodings > 0, request.isHTTP10 {
            return .malformed("HTTP/1.0 has no transfer codings.")
        }
        if hosts == 0, !request.isHTTP10 {
            return .malformed("The Host header is missing.")
        }
        return nil
    }
}
