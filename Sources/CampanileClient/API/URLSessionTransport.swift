import Foundation
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// Sends requests with URLSessions of its own, without cookies and cache: the user's token identifies the caller.
///
/// Streams use its delegate, because Linux's URLSession has no `bytes`.
public final class URLSessionTransport: HTTPTransport {
    /// The most bytes of an answer, streams aside.
    static let answerBytes = 8 << 20

    /// By timeout: Linux's URLSession uses the session's and ignores the request's.
    private let sessions: Locked<[TimeInterval: URLSession]>
    /// The session whose configuration the others share, except for the timeout.
    private let first: URLSession
    private let exchanges = Exchanges()

    /// - Parameter configure: changes the sessions' configuration before its use; the calls set the timeouts.
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

    // A session holds its delegate until it is invalidated.
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
        // A cancelled task ends the loop as if the body were complete.
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

/// The session's delegate: passes its events to the waiting calls.
private final class Exchanges: NSObject, URLSessionDataDelegate, Sendable {
    /// The most pieces that wait for a reader. A slower reader loses the connection, not a piece in the middle.
    private static let waitingPieces = 4_096

    private enum Exchange: Sendable {
        /// No call waits yet.
        case registered
        case waiting(CheckedContinuation<HTTPStream, any Error>)
        case open(AsyncThrowingStream<Data, any Error>.Continuation)
    }

    private let exchanges = Locked<[ObjectIdentifier: Exchange]>([:])

    func register(_ task: URLSessionTask) {
        exchanges.withLock { $0[ObjectIdentifier(task)] = .registered }
    }

    /// - Returns: false when it was cancelled before: the continuation has resumed, and the task needn't run.
    func begin(_ task: URLSessionTask, _ continuation: CheckedContinuation<HTTPStream, any Error>) -> Bool {
        let isRegistered = exchanges.withLock { exchanges in
            guard exchanges[ObjectIdentifier(task)] != nil else { return false }
            exchanges[ObjectIdentifier(task)] = .waiting(continuation)
            return true
        }
        if !isRegistered { continuation.resume(throwing: URLError(.cancelled)) }
        return isRegistered
    }

    /// Resumes a call that waits for the head at once, without waiting for the session. A body that has begun ends with
    /// its task.
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

    /// Follows no redirection: the user's token is for this server only.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
