/// The limits of one client. All sizes are bytes, all times nanoseconds.
///
/// The deadlines are absolute: the library's own timeout measures only inactivity, so a client that sends one byte a
/// second could hold a connection for ever.
package struct Limits: Sendable {
    /// The longest request target (RFC 9112, section 3.2). Longer ones are answered 414.
    package var uriBytes = 4_096
    /// The longest header section, from the first field name to the empty line, with the trailers after a chunked body.
    /// Larger ones are answered 431.
    package var headerBytes = 16 * 1_024
    /// The most header fields a request may have, with its trailers. More are answered 431.
    package var headerCount = 64
    /// The largest request body. Larger ones are answered 413, by their Content-Length before the body is read; what is sent
    /// of them nevertheless is thrown away.
    package var bodyBytes = 256 * 1_024
    /// From the request line to the last byte of the body.
    package var requestDeadline: UInt64 = 15_000_000_000
    /// From the connection's start, or the last answer, to the end of the next request line.
    package var idleDeadline: UInt64 = 75_000_000_000
    /// The time for which a draining server waits for the first request of an accepted connection.
    package var firstRequestGrace: UInt64 = 1_000_000_000
    /// From the answer until the client has taken its last byte.
    package var responseDeadline: UInt64 = 60_000_000_000
    /// Memory the library may use for one connection: read buffer, header table and answer's head.
    ///
    /// It must hold a request at all three limits above, 64 bytes a field for the library's table, 144 for the field
    /// that hides the cookies (`MicroHTTPD075.hideCookies`), and the head of the answer: the library answers a request
    /// that doesn't fit itself, without a problem document. It should hold no more, because the library zeroes all of
    /// it after every request (`MHD_pool_reset`): at the library's default of 32 KiB that takes a quarter of the time that a
    /// small request spends outside the kernel.
    package var connectionMemory = 26 * 1_024

    package init() {}
}

/// The reason why the engine refuses a request before the application sees it. The application renders the answer; the connection
/// closes after it.
package enum Refusal: Error, Sendable {
    /// 400. The reason is a sentence for the client that repeats nothing of its request.
    case malformed(StaticString)
    /// 414.
    case uriTooLong
    /// 431.
    case headersTooLarge
    /// 413.
    case bodyTooLarge
    /// 503: the server stops before the work on the request has finished.
    case stopping
    /// 503: the process has no descriptor left to take a connection over.
    case exhausted

    /// The status that fits the refusal.
    package var status: UInt16 {
        switch self {
        case .malformed: 400
        case .uriTooLong: 414
        case .headersTooLarge: 431
        case .bodyTooLarge: 413
        case .stopping, .exhausted: 503
        }
    }
}
