public import Foundation

/// One HTTP request, before it is sent.
public struct HTTPCall: Sendable {
    public var method: String
    public var url: URL
    public var headers: [String: String]
    public var body: Data?
    /// How long nothing may arrive before the call has failed.
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

/// What a server answered, whatever the status.
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

/// An answer whose body goes on until one side ends it.
public struct HTTPStream: Sendable {
    public let status: Int
    /// By the name in lower case.
    public let headers: [String: String]
    /// Throws when the connection breaks; ends when the server ends it.
    public let body: AsyncThrowingStream<Data, any Error>

    public init(status: Int, headers: [String: String] = [:], body: AsyncThrowingStream<Data, any Error>) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// Who carries requests: `URLSessionTransport`, or what a test puts in its place. Errors are what the network said,
/// `URLError` as a rule; an answer with a status of 400 or more is no error here.
public protocol HTTPTransport: Sendable {
    func send(_ call: HTTPCall) async throws -> HTTPAnswer
    /// Returns when the head of the answer is there.
    func open(_ call: HTTPCall) async throws -> HTTPStream
}
