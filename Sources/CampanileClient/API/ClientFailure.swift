public import Foundation

/// The reason why a call, or the loading of a page, failed, with a message for the user and whether to offer Retry.
///
/// A cancellation is no failure: `ClientFailure(error)` is nil for it. A web view's load that was stopped, or replaced
/// by another, ends with `URLError.cancelled`, -999.
public struct ClientFailure: Error, Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        /// The device has no network.
        case offline
        /// The server couldn't be reached, or didn't answer in time.
        case unreachable
        /// The server's certificate isn't trusted, or the connection isn't secure.
        case insecure
        /// Nobody is signed in, or the session has ended (401).
        case signedOut
        /// The user may not do this (403).
        case forbidden
        /// It doesn't exist (404, 410).
        case notFound
        /// The server can't do it now (408, 429, 500 and above; of a call, a 404 without a code, as a proxy's).
        case unavailable
        /// The request is wrong (the other 4xx): a mistake in the app.
        case refused
        /// The answer isn't as documented.
        case unreadable
        /// Anything else.
        case unknown
    }

    public let kind: Kind
    /// The answer's status; nil when there was none.
    public let status: Int?
    /// The stable code of the server's problem document.
    public let code: String?
    /// The server's or the system's text, for the log.
    public let detail: String?
    /// The wait that the server asked for.
    public let retryAfter: Duration?

    public init(
        _ kind: Kind, status: Int? = nil, code: String? = nil, detail: String? = nil, retryAfter: Duration? = nil
    ) {
        self.kind = kind
        self.status = status
        self.code = code
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// A sentence for the user, in English. For other languages choose a text by `kind`.
    public var message: String {
        switch kind {
        case .offline: "You are offline. Check your connection and try again."
        case .unreachable: "The server can't be reached. Try again in a moment."
        case .insecure: "A secure connection to the server can't be made."
        case .signedOut: "You are signed out. Sign in to continue."
        case .forbidden: "You have no access to this."
        case .notFound: "This no longer exists."
        case .unavailable: "The server can't do this right now. Try again in a moment."
        case .refused: "This didn't work. An update of the app may help."
        case .unreadable: "The server's answer can't be read. An update of the app may help."
        case .unknown: "Something went wrong. Try again."
        }
    }

    /// True if a retry may work.
    public var offersRetry: Bool {
        switch kind {
        case .offline, .unreachable, .unavailable, .insecure, .unreadable, .unknown: true
        case .signedOut, .forbidden, .notFound, .refused: false
        }
    }
}

extension ClientFailure {
    /// From the status of an answer.
    /// - Returns: nil for one that is no failure.
    public init?(status: Int, code: String? = nil, detail: String? = nil, retryAfter: Duration? = nil) {
        let kind: Kind
        switch status {
        case ..<400: return nil
        case 401: kind = .signedOut
        case 403: kind = .forbidden
        case 404, 410: kind = .notFound
        case 408, 429, 500...: kind = .unavailable
        default: kind = .refused
        }
        self.init(kind, status: status, code: code, detail: detail, retryAfter: retryAfter)
    }

    /// From any error: `URLError`, Foundation's errors that wrap one, and this library's own.
    /// - Returns: nil for a cancellation: `URLError.cancelled` and `CancellationError`.
    public init?(_ error: any Error) {
        if let failure = error as? ClientFailure {
            self = failure
            return
        }
        guard !ClientFailure.isCancellation(error) else { return nil }
        guard let code = ClientFailure.urlCode(error) else {
            self.init(.unknown, detail: String(describing: error))
            return
        }
        self.init(Kind(code), detail: "URLError \(code.rawValue)")
    }

    static func isCancellation(_ error: any Error) -> Bool {
        error is CancellationError || urlCode(error) == .cancelled
    }

    /// The network error's code, even inside another error.
    private static func urlCode(_ error: any Error) -> URLError.Code? {
        if let error = error as? URLError { return error.code }
        var current: NSError? = error as NSError
        // The loop must end even if errors wrap each other in a circle.
        for _ in 0..<8 {
            guard let error = current else { return nil }
            if error.domain == NSURLErrorDomain { return URLError.Code(rawValue: error.code) }
            current = error.userInfo[NSUnderlyingErrorKey] as? NSError
        }
        return nil
    }
}

extension ClientFailure.Kind {
    fileprivate init(_ code: URLError.Code) {
        switch code {
        case .notConnectedToInternet, .internationalRoamingOff, .dataNotAllowed, .callIsActive: self = .offline
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid, .clientCertificateRejected,
            .clientCertificateRequired, .appTransportSecurityRequiresSecureConnection:
            self = .insecure
        case .cannotParseResponse, .cannotDecodeContentData, .cannotDecodeRawData, .badServerResponse, .dataLengthExceedsMaximum:
            self = .unreadable
        case .badURL, .unsupportedURL: self = .refused
        default: self = .unreachable
        }
    }
}

extension ClientFailure: LocalizedError {
    public var errorDescription: String? { message }
}
