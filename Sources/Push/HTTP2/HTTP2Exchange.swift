package import NIOCore
package import NIOHPACK

/// One POST: complete header fields, pseudo-headers first, and a body that fits one frame.
package struct HTTP2Request: Sendable {
    let headers: HPACKHeaders
    let body: ByteBuffer
    /// The last moment for putting it on a stream, in nanoseconds of `World.monotonic`.
    let notAfter: Int64

    package init(headers: HPACKHeaders, body: ByteBuffer, notAfter: Int64 = .max) {
        self.headers = headers
        self.body = body
        self.notAfter = notAfter
    }
}

/// The answer.
package enum HTTP2Result: Sendable {
    case answer(HTTP2Answer)
    case failure(HTTP2Failure)
}

package struct HTTP2Answer: Sendable {
    package let status: Int
    package let headers: HPACKHeaders
    /// The first bytes of the body; `isWhole` says whether they are all of it.
    package let body: ByteBuffer?
    package let isWhole: Bool
    /// The connection that it came over, for `HTTP2Client.retire`.
    package let connection: HTTP2ConnectionID
}

/// The reason why there is no answer.
package struct HTTP2Failure: Error {
    package enum Kind: Sendable, Equatable {
        /// Never put on a stream.
        case unsent
        /// Never put on a stream, because its last moment had passed when one was free.
        case expired
        /// Put on a stream, but the server said that it didn't process it: GOAWAY with a lower last stream,
        /// REFUSED_STREAM.
        case refused
        /// Sent, without an answer: it may have been processed.
        case unanswered
    }

    package let kind: Kind
    /// A sentence without tokens or secrets.
    package let reason: String

    package init(_ kind: Kind, _ reason: String) {
        self.kind = kind
        self.reason = reason
    }
}

/// A connection's id within the process.
package struct HTTP2ConnectionID: Hashable, Sendable {
    let number: UInt64
}

/// A request under way. Belongs to the event loop of its client.
final class HTTP2Exchange {
    let request: HTTP2Request
    let completion: @Sendable (HTTP2Result) -> Void
    /// The time at which the client got it.
    let waitingSince: Int64
    /// The time at which it was put on a stream.
    var sentAt: Int64 = 0
    var status: Int?
    var headers = HPACKHeaders()
    var body: ByteBuffer?
    var isWhole = true

    init(request: HTTP2Request, waitingSince: Int64, completion: @escaping @Sendable (HTTP2Result) -> Void) {
        self.request = request
        self.waitingSince = waitingSince
        self.completion = completion
    }

    /// Keeps the bytes that fit; true when it dropped the rest.
    func append(_ data: ByteBuffer, limit: Int) -> Bool {
        var data = data
        let room = limit - (body?.readableBytes ?? 0)
        let isTooMuch = data.readableBytes > room
        if isTooMuch { data = data.readSlice(length: max(room, 0)) ?? ByteBuffer() }
        if body == nil { body = data } else { body?.writeBuffer(&data) }
        if isTooMuch { isWhole = false }
        return isTooMuch
    }

    func answer(over connection: HTTP2ConnectionID, status: Int) {
        completion(
            .answer(
                HTTP2Answer(status: status, headers: headers, body: body, isWhole: isWhole, connection: connection)))
    }

    func fail(_ kind: HTTP2Failure.Kind, _ reason: String) {
        completion(.failure(HTTP2Failure(kind, reason)))
    }

    /// Ends the exchange because the stream ended early. A status of success counts even without the whole body; any
    /// other status can't be judged without it.
    func breakOff(over connection: HTTP2ConnectionID, _ reason: String) {
        guard let status else { return fail(.unanswered, reason) }
        guard (200..<300).contains(status) else {
            return fail(.unanswered, "An answer with status \(status) broke off: \(reason)")
        }
        isWhole = false
        answer(over: connection, status: status)
    }
}
