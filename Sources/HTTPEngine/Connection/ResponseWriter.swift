import CMicroHTTPD
import Glibc

/// Turns a Response into the library's and queues it.
enum ResponseWriter {
    /// Queues an answer on a connection's own thread.
    ///
    /// If the library refuses the answer, because a header value is empty or holds a line break, sends a 500 without a
    /// body: better than half a head.
    /// - Returns: `.NO` if even that failed; the library then closes the connection.
    static func queue(_ response: Response, on handle: OpaquePointer, closing: Bool) -> MHD_Result {
        if let made = make(response, closing: closing || response.closesConnection) {
            defer { MHD_destroy_response(made) }
            if MHD_queue_response(handle, UInt32(response.status), made) == .YES { return .YES }
        }
        guard let made = make(Response(status: 500), closing: true) else { return .NO }
        defer { MHD_destroy_response(made) }
        return MHD_queue_response(handle, 500, made)
    }

    private static func make(_ response: Response, closing: Bool) -> OpaquePointer? {
        let bodiless = response.status < 200 || response.status == 204
        guard let made = body(bodiless ? .empty : response.body) else { return nil }
        var accepted = true
        for header in response.headers where accepted {
            accepted = add(header, to: made)
        }
        if accepted, let header = response.lastHeader { accepted = add(header, to: made) }
        if accepted, closing {
            accepted = MHD_add_response_header(made, "Connection", "close") == .YES
        }
        guard accepted else {
            MHD_destroy_response(made)
            return nil
        }
        return made
    }

    private static func body(_ body: Response.Body) -> OpaquePointer? {
        switch body {
        case .empty:
            return MHD_create_response_from_buffer(0, nil, .RESPMEM_PERSISTENT)
        case .bytes(let bytes):
            // The response owns one reference until the library has sent the last byte.
            return MHD_create_response_from_buffer_with_free_callback_cls(
                bytes.count, bytes.storage.base, release, Unmanaged.passRetained(bytes.storage).toOpaque())
        case .text(let text):
            var text = text
            return text.withUTF8 { copy(UnsafeRawBufferPointer($0)) }
        case .array(let array):
            return array.withUnsafeBytes { copy($0) }
        case .constant(let literal):
            return MHD_create_response_from_buffer(
                literal.utf8CodeUnitCount, UnsafeMutableRawPointer(mutating: literal.utf8Start), .RESPMEM_PERSISTENT)
        case .program(let program):
            return MHD_create_response_from_buffer(
                program.bytes.count, UnsafeMutableRawPointer(mutating: program.bytes.baseAddress), .RESPMEM_PERSISTENT)
        case .takeOver:
            // It doesn't come here: see `Connection.answer`.
            return nil
        }
    }

    /// The library has sent the last byte, or given up.
    private static let release: MHD_ContentReaderFreeCallback = { storage in
        if let storage { Unmanaged<ResponseBytes.Storage>.fromOpaque(storage).release() }
    }

    private static func copy(_ bytes: UnsafeRawBufferPointer) -> OpaquePointer? {
        MHD_create_response_from_buffer(
            bytes.count, UnsafeMutableRawPointer(mutating: bytes.baseAddress), .RESPMEM_MUST_COPY)
    }

    private static func add(_ header: Response.Header, to response: OpaquePointer) -> Bool {
        let name = UnsafeRawPointer(header.name.utf8Start).assumingMemoryBound(to: CChar.self)
        return switch header.value {
        case .constant(let literal):
            MHD_add_response_header(
                response, name, UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: CChar.self)) == .YES
        case .text(let text):
            text.withCString { value in
                // A NUL in the middle would cut the value silently.
                strlen(value) == text.utf8.count && MHD_add_response_header(response, name, value) == .YES
            }
        case .strongTag(let number):
            withUnsafeTemporaryAllocation(byteCount: 24, alignment: 1) { buffer in
                guard let base = buffer.baseAddress else { return false }
                base.storeBytes(of: UInt8(ascii: "\""), as: UInt8.self)
                let digits = Decimal.write(number, to: base + 1)
                base.storeBytes(of: UInt8(ascii: "\""), toByteOffset: digits + 1, as: UInt8.self)
                base.storeBytes(of: 0, toByteOffset: digits + 2, as: UInt8.self)
                return MHD_add_response_header(response, name, base.assumingMemoryBound(to: CChar.self)) == .YES
            }
        }
    }
}
