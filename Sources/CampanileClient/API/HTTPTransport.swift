public import Foundation

/// One HTTP request, before it is sent.
public struct HTTPCall: Sendable {
    public var method: String
    public var url: URL
    public var headers: [String: String]
    public var body: Data?
    /// The time without a byte after which the call fails.
    public var timeout: TimeInterval

    public init(
        method: String = "GET", url: URL, headers: [String: String] = [:], body: Data? = nil, timeout: TimeInterval = 30
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }
}

/// A server's answer, with any status.
public struct HTTPAnswer: Sendable {
    public let status: Int
    /// By the name in lower case.
    public let headers: [String: String]
    public let body: Data

    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// An answer with a body that continues until one side ends it.
public struct HTTPStream: Sendable {
    public let status: Int
    /// By the name in lower case. A 404 without the type of a problem document is taken for a proxy's, and the stream tried again.
    public let headers: [String: String]
    /// Throws when the connection breaks; ends when the server ends it.
    public let body: AsyncThrowingStream<Data, any Error>

    public init(status: Int, headers: [String: String] = [:], body: AsyncThrowingStream<Data, any Error>) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// Sends requests: `URLSessionTransport`, or a test's replacement. Throws the network's errors, usually `URLError`; an
/// answer with a status of 400 or more is no error here.
public protocol HTTPTransport: Sendable {
    func send(_ call: HTTPCall) async throws -> HTTPAnswer
    /// Returns when the answer's head has arrived.
    func open(_ call: HTTPCall) async throws -> HTTPStream
}
