import Foundation

extension ClientFailure {
    /// Why a page couldn't be loaded, from what the web view says of it.
    /// - Parameters:
    ///   - status: of the answer; nil when there was none.
    ///   - code: of an error of the network, such as -999; nil when it was none.
    /// - Returns: nil for what was only called off.
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
