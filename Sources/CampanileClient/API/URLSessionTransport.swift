import Foundation
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// Carries requests with a URLSession of its own, without cookies and without a cache: the user's token says who asks.
///
/// Streams come through its delegate, because Linux' URLSession has no `bytes`.
public final class URLSessionTransport: HTTPTransport {
    /// Bytes of an answer at most, streams aside.
    static let answerBytes = 8 << 20

    private let session: URLSession
    private let exchanges = Exchanges()

    /// - Parameter configure: changes the session's configuration before it is used.
    public init(_ configure: (URLSessionConfiguration) -> Void = { _ in }) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configure(configuration)
        session = URLSession(configuration: configuration, delegate: exchanges, delegateQueue: nil)
    }

    // The session holds its delegate until it is told to end.
    deinit { session.finishTasksAndInvalidate() }

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
        let task = session.dataTask(with: request)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                exchanges.begin(task, continuation)
                task.resume()
            }
        } onCancel: {
            task.cancel()
        }
    }
}

/// What the session tells of its tasks, handed to those who wait for it.
private final class Exchanges: NSObject, URLSessionDataDelegate, Sendable {
    /// Pieces that wait for a reader at most; one that doesn't keep up loses the connection, and not a piece in the middle.
    private static let waitingPieces = 4_096

    private enum Exchange: Sendable {
        case waiting(CheckedContinuation<HTTPStream, any Error>)
        case open(AsyncThrowingStream<Data, any Error>.Continuation)
    }

    private let exchanges = Locked<[Int: Exchange]>([:])

    func begin(_ task: URLSessionTask, _ continuation: CheckedContinuation<HTTPStream, any Error>) {
        exchanges.withLock { $0[task.taskIdentifier] = .waiting(continuation) }
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        guard let response = response as? HTTPURLResponse else { return completionHandler(.cancel) }
        let (body, pieces) = AsyncThrowingStream.makeStream(
            of: Data.self, throwing: (any Error).self, bufferingPolicy: .bufferingOldest(Exchanges.waitingPieces))
        // Only when the reader is gone: a task that has completed must not be cancelled from within its completion.
        pieces.onTermination = { if case .cancelled = $0 { dataTask.cancel() } }
        let before = exchanges.withLock { exchanges in
            exchanges.updateValue(.open(pieces), forKey: dataTask.taskIdentifier)
        }
        if case .waiting(let continuation)? = before {
            var headers: [String: String] = [:]
            for (name, value) in response.allHeaderFields {
                if let name = name as? String, let value = value as? String { headers[name.lowercased()] = value }
            }
            continuation.resume(returning: HTTPStream(status: response.statusCode, headers: headers, body: body))
        }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        guard case .open(let pieces)? = exchanges.withLock({ $0[dataTask.taskIdentifier] }) else { return }
        guard case .dropped = pieces.yield(data) else { return }
        pieces.finish(throwing: URLError(.dataLengthExceedsMaximum))
        dataTask.cancel()
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        switch exchanges.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) {
        case .waiting(let continuation): continuation.resume(throwing: error ?? URLError(.badServerResponse))
        case .open(let pieces): pieces.finish(throwing: error)
        case nil: break
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
