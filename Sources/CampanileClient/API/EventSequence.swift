import Foundation

/// The server's events as they happen, until the loop ends.
///
/// Reconnects after a connection breaks or the server ends it, with growing waits between failures, and resumes where
/// it was. Throws errors that waiting can't fix, such as a `ClientFailure` of the kind `signedOut`. Belongs to one
/// user, and throws `CancellationError` once they have signed out or another has signed in. Cancel the task to end it.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    let api: CampanileAPI
    let path: String
    let lastEventID: String?
    let decode: @Sendable (ServerSentEvent) -> Element?

    init(
        api: CampanileAPI, path: String, lastEventID: String?, _ decode: @escaping @Sendable (ServerSentEvent) -> Element?
    ) {
        self.api = api
        self.path = path
        self.lastEventID = lastEventID
        self.decode = decode
    }

    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let sequence: EventSequence
        /// The stream's user: it never connects as another.
        private let user = CallUser()
        private var body: AsyncThrowingStream<Data, any Error>.Iterator?
        private var parser: EventStreamParser
        private var ready: ArraySlice<Element> = []
        /// Connections in a row that brought no byte.
        private var tries = 0
        private var wasOpen = false
        private var isOver = false

        init(_ sequence: EventSequence) {
            self.sequence = sequence
            parser = EventStreamParser(lastEventID: sequence.lastEventID)
        }

        public mutating func next() async throws -> Element? {
            while !isOver {
                do {
                    // An event may wait here for long.
                    try sequence.api.checkPresence(of: user)
                    if let element = ready.popFirst() { return element }
                    try await receive()
                } catch {
                    body = nil
                    try await recover(from: error)
                }
            }
            return nil
        }

        /// Takes the next bytes from the connection; connects if there is none.
        private mutating func receive() async throws {
            if body == nil { body = try await connect() }
            guard let bytes = try await body?.next() else {
                // Ended, by the server or by our task.
                try Task.checkCancellation()
                body = nil
                return try await wait(atLeast: .zero)
            }
            tries = 0
            ready = try parser.feed(bytes).compactMap(sequence.decode)[...]
        }

        private mutating func connect() async throws -> AsyncThrowingStream<Data, any Error>.Iterator {
            let api = sequence.api
            // Drops a partial event of the last connection.
            parser = EventStreamParser(lastEventID: parser.lastEventID, retry: parser.retry)
            // The server sends something every 20 seconds.
            var call = HTTPCall(url: try api.url(sequence.path), headers: ["Accept": "text/event-stream"], timeout: 60)
            if !parser.lastEventID.isEmpty { call.headers["Last-Event-ID"] = parser.lastEventID }
            let stream = try await api.attempt(call, as: user) { try await api.transport.open($0) }
            guard stream.status == 200 else {
                let isServers = stream.headers["content-type"]?.hasPrefix("application/problem+json") == true
                throw ClientFailure(answer: stream.status, isServers: isServers, retryAfter: stream.retryAfter(api.retry.now))
            }
            wasOpen = true
            return stream.body.makeAsyncIterator()
        }

        private mutating func recover(from error: any Error) async throws {
            let failure: ClientFailure
            do {
                failure = try sequence.api.failed(error)
            } catch {
                isOver = true
                throw error
            }
            // A phone joins networks that impersonate the server, such as a hotel's, and leaves them again.
            let isStrangers = wasOpen && failure.kind == .insecure
            guard failure.mayPass || isStrangers else {
                isOver = true
                throw failure
            }
            try await wait(atLeast: failure.retryAfter ?? .zero)
        }

        private mutating func wait(atLeast floor: Duration) async throws {
            tries += 1
            let retry = sequence.api.retry
            try await retry.sleep(retry.delay(after: tries, atLeast: Swift.max(floor, parser.retry ?? .zero)))
        }
    }
}
