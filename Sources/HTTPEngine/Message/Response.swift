/// A handler's answer.
package struct Response: Sendable {
    /// The bytes after the head.
    package enum Body: Sendable {
        case empty
        /// Handed to the library without a copy.
        case bytes(ResponseBytes)
        /// Copied into the library's own buffer.
        case text(String)
        case array([UInt8])
        /// A literal, sent from the program's own memory.
        case constant(StaticString)
        /// Sent from the program's own memory too.
        case program(ProgramBytes)
        /// None: the application takes the connection over. See `init(takeOver:_:)`.
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
    /// Header fields in order. The library adds `Date`, `Content-Length` and `Connection`. An empty value, a value with
    /// a line break or a Content-Length turns the whole answer into a 500.
    package var headers: [Header]
    /// For HEAD and 304, give the body of a GET: the engine announces its length and doesn't send it (RFC 9110, section
    /// 8.6). 1xx and 204 never carry a body.
    package var body: Body
    /// One more header field, after the list: for code that wraps every answer without growing the list.
    package var lastHeader: Header?
    /// True if the connection ends with this answer.
    package var closesConnection = false

    package init(status: UInt16, headers: [Header] = [], body: Body = .empty) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    package init(status: UInt16, contentType: StaticString, body: Body) {
        self.init(status: status, headers: [Header("Content-Type", .constant(contentType))], body: body)
    }

    /// Hands the connection to the application, which writes the whole answer itself, from the status line on. The
    /// library keeps nothing of it.
    ///
    /// The engine calls the closure at most once, on the daemon's thread, where nothing may wait. It releases the
    /// closure uncalled if the client is gone, if the server stops (503), if the client sent more than the request
    /// (400: the library has read those bytes, and the application would miss them), or if the system has no descriptor
    /// left (503). So put whatever you reserve for the connection into an object that the closure holds and whose
    /// `deinit` gives it back.
    ///
    /// Only for requests without a body, and not for HEAD, which gets an ordinary answer.
    /// - Parameter status: the status for `completed`, and so for the access log. The application sends its own
    ///   headers, so those of this response go nowhere.
    package init(takeOver status: UInt16, _ take: @escaping @Sendable (TakenSocket) -> Void) {
        self.init(status: status, body: .takeOver(take))
    }

    package mutating func add(_ name: StaticString, _ value: HeaderValue) {
        headers.append(Header(name, value))
    }

    /// 204 with the methods of a path, for OPTIONS (RFC 9110, section 9.3.7).
    package static func options(allow: String) -> Response {
        Response(status: 204, headers: [Header("Allow", .text(allow))])
    }
}

/// Bytes in the program's own memory. They are there as long as the process.
///
/// Sendable, because nobody changes or frees them.
package struct ProgramBytes: @unchecked Sendable {
    package let bytes: UnsafeRawBufferPointer

    package init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }
}

/// A handler's answer, or the work that produces it.
package enum Answer: Sendable {
    /// The answer, to be sent from the calling thread.
    case now(Response)
    /// Work that may wait. It starts on the calling thread; if it finishes without waiting, the answer goes out at
    /// once, else the connection is suspended until the work has one.
    case later(@Sendable () async throws -> Response)
}

extension Answer {
    /// The response; waits for it if necessary.
    package func response() async throws -> Response {
        switch self {
        case .now(let response): response
        case .later(let work): try await work()
        }
    }
}

/// Answers a request. `Finish` turns an error that it throws, at once or later, into a response.
package typealias Handler = @Sendable (Request) throws -> Answer

/// Completes every answer: a handler's response or error, or the engine's own `Refusal`.
package typealias Finish = @Sendable (Result<Response, any Error>, Request) -> Response
