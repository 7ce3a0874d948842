import CMicroHTTPD
import Glibc

/// Refusals, which the engine writes without the library. On the connection's daemon thread.
extension Connection {
    /// Refuses the request and ends the connection.
    ///
    /// Writes the answer straight to the socket: see `MicroHTTPD075`. The kernel has all earlier bytes, or the library
    /// wouldn't have read on. A client that reads nothing, and so leaves no room for a few hundred bytes there, doesn't
    /// get them.
    /// - Returns: `.NO`, so that the library closes the connection.
    func refuse(_ refusal: Refusal) -> MHD_Result {
        let response = engine.finish(.failure(refusal), request)
        let body = response.body.copied
        let reason = MHD_get_reason_phrase_for(UInt32(response.status)).map { String(cString: $0) } ?? ""
        var headers = [Response.Header("Date", .text(Self.date()))] + response.headers
        if let last = response.lastHeader { headers.append(last) }
        headers += [.init("Connection", "close"), .init("Content-Length", .text("\(body.count)"))]
        var bytes = ResponseHead.bytes(status: Int(response.status), reason: reason, headers)
        if request.method != .head { bytes += body }
        _ = Glibc.send(socket, bytes, bytes.count, cmhd_send_flags)
        current.progress = .answered
        current.takenStatus = response.status
        return .NO
    }

    /// Refuses the request and has the rest of its body read away: a client that sends all before it reads would meet a
    /// reset instead of the answer (RFC 9112, section 9.6). The connection ends when the body does, when the client hangs up,
    /// or at the request's deadline.
    /// - Returns: `.YES`, so that the library reads on.
    func refuseBody() -> MHD_Result {
        _ = refuse(.bodyTooLarge)
        report(at: engine.clock())
        // The deadline stays that of the request.
        stages.enter(.refused, at: stages.current.since)
        // A client that reads to the end needn't wait for the deadline.
        _ = shutdown(socket, Int32(SHUT_WR))
        return .YES
    }

    /// Ends the connection without an answer.
    /// - Returns: `.NO`, so that the library closes the connection.
    func hangUp() -> MHD_Result {
        current.progress = .answered
        return .NO
    }

    /// The value of a Date field (RFC 9110, section 5.6.7).
    private static func date() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { text in
            let length = strftime(text.baseAddress, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            return String(decoding: UnsafeRawBufferPointer(text).prefix(length), as: UTF8.self)
        }
    }
}

extension Response.Body {
    fileprivate var copied: [UInt8] {
        switch self {
        case .empty, .takeOver: []
        case .bytes(let bytes): [UInt8](UnsafeRawBufferPointer(start: bytes.storage.base, count: bytes.count))
        case .text(let text): [UInt8](text.utf8)
        case .array(let array): array
        case .constant(let literal): [UInt8](UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
        case .program(let program): [UInt8](program.bytes)
        }
    }
}
