/// How much of everything one client may use. All sizes are bytes, all times nanoseconds.
///
/// The deadlines are absolute: the library's own timeout only measures inactivity, so that a client that drips
/// one byte a second would hold a connection for ever.
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
    /// How long a server that drains waits for the first request of a connection that it has accepted.
    package var firstRequestGrace: UInt64 = 1_000_000_000
    /// From the answer to the last byte the client takes of it.
    package var responseDeadline: UInt64 = 60_000_000_000
    /// Memory the library may use for one connection: read buffer, header table and answer's head.
    ///
    /// It must hold a request at all three limits above, 64 bytes a field for the library's table, 144 for the field that hides
    /// the cookies (`HeadReader.hideCookies`), and the head of the answer, because what doesn't fit is answered by the library
    /// itself, without a problem document. And it must hold
    /// no more, because the library zeroes all of it after every request (`MHD_pool_reset`): at its default of 32 KiB
    /// that is a quarter of the time a small request spends outside the kernel.
    package var connectionMemory = 26 * 1_024

    package init() {}
}

/// Why the engine refuses a request before the application sees it. The application renders the answer;
/// the connection closes after it.
package enum Refusal: Error, Sendable {
    /// 400. The reason is a sentence for the client, with nothing of what it sent.
    case malformed(StaticString)
    /// 414.
    case uriTooLong
    /// 431.
    case headersTooLarge
    /// 413.
    case bodyTooLarge
    /// 503: the server stops while the request is still being worked on.
    case stopping
    /// 503: the process has no descriptor left for a connection that is to be taken over.
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
