import Foundation
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// Carries requests with URLSessions of its own, without cookies and without a cache: the user's token says who asks.
///
/// Streams come through its delegate, because Linux' URLSession has no `bytes`.
public final class URLSessionTransport: HTTPTransport {
    /// Bytes of an answer at most, streams aside.
    static let answerBytes = 8 << 20

    /// By timeout: Linux' URLSession looks at its session's, and not at the request's.
    private let sessions: Locked<[TimeInterval: URLSession]>
    /// Whose configuration the others have, but for the timeout.
    private let first: URLSession
    private let exchanges = Exchanges()

    /// - Parameter configure: changes the sessions' configuration before it is used; the calls say how long they wait.
    public init(_ configure: (URLSessionConfiguration) -> Void = { _ in }) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configure(configuration)
        let session = URLSession(configuration: configuration, delegate: exchanges, delegateQueue: nil)
        sessions = Locked([configuration.timeoutIntervalForRequest: session])
        first = session
    }

    // A session holds its delegate until it is told to end.
    deinit {
        for session in sessions.withLock({ $0.values }) { session.finishTasksAndInvalidate() }
    }

    private func session(_ timeout: TimeInterval) -> URLSession {
        sessions.withLock { sessions in
            if let session = sessions[timeout] { return session }
            let configuration = first.configuration
            configuration.timeoutIntervalForRequest = timeout
            let session = URLSession(configuration: configuration, delegate: exchanges, delegateQueue: nil)
            sessions[timeout] = session
            return session
        }
    }

    public func send(_ call: HTTPCall) async throws -> HTTPAnswer {
        let stream = try await open(call)
        var body = Data()
        for try await bytes in stream.body {
            body += bytes
            guard body.count <= URLSessionTransport.answerBytes else { throw URLError(.dataLengthExceedsMaximum) }
        }
        // A cancelled task ends the loop as if the body were whole.
        try Task.checkCancellation()
        return HTTPAnswer(status: stream.status, headers: stream.headers, body: body)
    }

    public func open(_ call: HTTPCall) async throws -> HTTPStream {
        var request = URLRequest(url: call.url, timeoutInterval: call.timeout)
        request.httpMethod = call.method
        request.httpBody = call.body
        for (name, value) in call.headers { request.setValue(value, forHTTPHeaderField: name) }
        let task = session(call.timeout).dataTask(with: request)
        // Whichever of the two comes first: the beginning, or the end by cancellation.
        exchanges.register(task)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if exchanges.begin(task, continuation) { task.resume() }
            }
        } onCancel: {
            exchanges.cancel(task)
            task.cancel()
        }
    }
}

/// What the session tells of its tasks, handed to those who wait for it.
private final class Exchanges: NSObject, URLSessionDataDelegate, Sendable {
    /// Pieces that wait for a reader at most; one that doesn't keep up loses the connection, and not a piece in the middle.
    private static let waitingPieces = 4_096

    private enum Exchange: Sendable {
        /// Nobody waits yet.
        case registered
        case waiting(CheckedContinuation<HTTPStream, any Error>)
        case open(AsyncThrowingStream<Data, any Error>.Continuation)
    }

    private let exchanges = Locked<[ObjectIdentifier: Exchange]>([:])

    func register(_ task: URLSessionTask) {
        exchanges.withLock { $0[ObjectIdentifier(task)] = .registered }
    }

    /// - Returns: false when it was called off before: the continuation has been told, and the task need not run.
    func begin(_ task: URLSessionTask, _ continuation: CheckedContinuation<HTTPStream, any Error>) -> Bool {
        let isRegistered = exchanges.withLock { exchanges in
            guard exchanges[ObjectIdentifier(task)] != nil else { return false }
            exchanges[ObjectIdentifier(task)] = .waiting(continuation)
            return true
        }
        if !isRegistered { continuation.resume(throwing: URLError(.cancelled)) }
        return isRegistered
    }

    /// Who waits for the head is told at once, and not when the session comes to it. A body that has begun ends with its task.
    func cancel(_ task: URLSessionTask) {
        let before = exchanges.withLock { exchanges -> Exchange? in
            if case .open? = exchanges[ObjectIdentifier(task)] { return nil }
            return exchanges.removeValue(forKey: ObjectIdentifier(task))
        }
        if case .waiting(let continuation)? = before { continuation.resume(throwing: URLError(.cancelled)) }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        guard let response = response as? HTTPURLResponse else { return completionHandler(.cancel) }
        let (body, pieces) = AsyncThrowingStream.makeStream(
            of: Data.self, throwing: (any Error).self, bufferingPolicy: .bufferingOldest(Exchanges.waitingPieces))
        let waiting = exchanges.withLock { exchanges -> CheckedContinuation<HTTPStream, any Error>? in
            guard case .waiting(let continuation)? = exchanges[ObjectIdentifier(dataTask)] else { return nil }
            exchanges[ObjectIdentifier(dataTask)] = .open(pieces)
            return continuation
        }
        guard let waiting else { return completionHandler(.cancel) }
        // Only when the reader is gone: a task that has completed must not be cancelled from within its completion.
        pieces.onTermination = { if case .cancelled = $0 { dataTask.cancel() } }
        var headers: [String: String] = [:]
        for (name, value) in response.allHeaderFields {
            if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
        }
        waiting.resume(returning: HTTPStream(status: response.statusCode, headers: headers, body: body))
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        guard case .open(let pieces)? = exchanges.withLock({ $0[ObjectIdentifier(dataTask)] }) else { return }
        guard case .dropped = pieces.yield(data) else { return }
        pieces.finish(throwing: URLError(.networkConnectionLost))
        dataTask.cancel()
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        switch exchanges.withLock({ $0.removeValue(forKey: ObjectIdentifier(task)) }) {
        case .waiting(let continuation): continuation.resume(throwing: error ?? URLError(.badServerResponse))
        case .open(let pieces): pieces.finish(throwing: error)
        case .registered, nil: break
        }
    }

    /// None is followed: the user's token is for this server alone.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
