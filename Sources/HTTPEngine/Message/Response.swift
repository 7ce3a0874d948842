/// What a handler answers with.
package struct Response: Sendable {
    /// The bytes after the head.
    package enum Body: Sendable {
        case empty
        /// Handed to the library without a copy.
        case bytes(ResponseBytes)
        /// Copied into the library's own buffer.
        case text(String)
        case array([UInt8])
        /// A literal, sent from where the program keeps it.
        case constant(StaticString)
        /// No answer of the engine's: the application gets the connection. See `init(takeOver:_:)`.
        case takeOver(@Sendable (TakenSocket) -> Void)
    }

    /// The value of a header field. A literal in the source becomes `.constant`.
    package enum HeaderValue: Sendable, ExpressibleByStringLiteral {
        case constant(StaticString)
        case text(String)
        /// A strong entity tag made of a number: `"17"` with the quotes (RFC 9110, section 8.8.3). Costs no String.
        case strongTag(UInt64)

        package init(stringLiteral value: StaticString) { self = .constant(value) }
    }

    package struct Header: Sendable {
        package var name: StaticString
        package var value: HeaderValue
        package init(_ name: StaticString, _ value: HeaderValue) {
            self.name = name
            self.value = value
        }
    }

    /// Status code (RFC 9110, section 15).
    package var status: UInt16
    /// Header fields in order. `Date`, `Content-Length` and `Connection` are the library's; an empty value, a value
    /// with a line break or a Content-Length turns the whole answer into a 500.
    package var headers: [Header]
    /// For HEAD and 304, hand over what a GET would get: it isn't sent, but its length is announced
    /// (RFC 9110, section 8.6). 1xx and 204 never carry a body.
    package var body: Body
    /// One header field more, after the list: for whoever wraps every answer and doesn't want to grow the list.
    package var lastHeader: Header?
    /// Whether the connection ends with this answer.
    package var closesConnection = false

    package init(status: UInt16, headers: [Header] = [], body: Body = .empty) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    package init(status: UInt16, contentType: StaticString, body: Body) {
        self.init(status: status, headers: [Header("Content-Type", .constant(contentType))], body: body)
    }

    /// The connection is handed to the application, which writes the whole answer itself, from the status line on. The
    /// library keeps nothing of it.
    ///
    /// The closure is called at most once, on the daemon's thread, where nothing may wait. It is let go uncalled if
    /// the client is gone before, if the server stops (503), if the client sent more than the request (400: the library
    /// has read it, and it would be lost), or if the system has no descriptor left (503). So whatever is reserved for
    /// the connection belongs into an object that the closure holds and whose end gives it back.
    ///
    /// Only for requests without a body, and not for HEAD, which has a common answer.
    /// - Parameter status: what `completed` is told, and with it the access log. Headers are the application's, so those
    ///   of this response are sent to nobody.
    package init(takeOver status: UInt16, _ take: @escaping @Sendable (TakenSocket) -> Void) {
        self.init(status: status, body: .takeOver(take))
    }

    package mutating func add(_ name: StaticString, _ value: HeaderValue) {
        headers.append(Header(name, value))
    }

    /// 204 with the methods that a path answers to, for OPTIONS (RFC 9110, section 9.3.7).
    package static func options(allow: String) -> Response {
        Response(status: 204, headers: [Header("Allow", .text(allow))])
    }
}

/// A handler's answer, or the work that will give it.
package enum Answer: Sendable {
    /// The answer is here; it is sent from the thread that asked.
    case now(Response)
    /// The answer needs work that may wait. It is started on the thread that asked; if it finishes without waiting,
    /// the answer goes out at once, else the connection is suspended until it has one.
    case later(@Sendable () async throws -> Response)
}

extension Answer {
    /// The response, waited for if need be.
    package func response() async throws -> Response {
        switch self {
        case .now(let response): response
        case .later(let work): try await work()
        }
    }
}

/// Answers a request. What it throws, at once or later, becomes a response by `Finish`.
package typealias Handler = @Sendable (Request) throws -> Answer

/// Gives every answer its last touch: a handler's response, its error, or a `Refusal` of the engine's own.
package typealias Finish = @Sendable (Result<Response, any Error>, Request) -> Response
