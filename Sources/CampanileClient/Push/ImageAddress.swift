import Foundation

/// The rule for addresses of images.
enum ImageAddress {
    /// Returns the address if the phone may fetch an image there: by https, from a host, without a name and a password,
    /// which would be sent along. Nil for any other.
    static func checked(_ url: URL?) -> URL? {
        guard let url, url.scheme?.lowercased() == "https", url.host?.isEmpty == false, url.user == nil, url.password == nil
        else { return nil }
        return url
    }
}
