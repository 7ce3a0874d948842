import Foundation

extension ClientFailure {
    /// Makes the failure of a page that couldn't be loaded, from the web view's result.
    /// - Parameters:
    ///   - status: the answer's; nil when there was none.
    ///   - code: a network error's, such as -999; nil when there was none.
    /// - Returns: nil for a cancellation.
    public init?(pageStatus status: Int?, code: Int?) {
        if let status, let failure = ClientFailure(status: status) {
            self = failure
        } else if let code {
            self.init(NSError(domain: NSURLErrorDomain, code: code))
        } else {
            self.init(.unknown)
        }
    }
}
