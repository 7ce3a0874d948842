import Foundation

/// An answer, with a body that has arrived or is still to come.
protocol Answered {
    var status: Int { get }
    var headers: [String: String] { get }
}

extension HTTPAnswer: Answered {}
extension HTTPStream: Answered {}

extension Answered {
    /// `Retry-After` (RFC 9110 section 10.2.3): seconds, or a moment. Compares the moment with the answer's `Date` if
    /// there is one, because a phone's clock may be wrong.
    /// - Parameter now: by the phone's clock.
    func retryAfter(_ now: @Sendable () -> Date) -> Duration? {
        guard let text = headers["retry-after"] else { return nil }
        if let seconds = Int64(text) { return seconds >= 0 ? .seconds(seconds) : nil }
        guard let moment = HTTPDate.date(text) else { return nil }
        let seconds = moment.timeIntervalSince(headers["date"].flatMap { HTTPDate.date($0) } ?? now())
        return .seconds(max(0, seconds))
    }
}

/// A date in a header, in today's form or in the two obsolete ones (RFC 9110 section 5.6.7).
private enum HTTPDate {
    private static let forms = ["EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM d HH:mm:ss yyyy"]

    static func date(_ text: String) -> Date? {
        // Created each time: dates are rare, and not on every system is a formatter Sendable.
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        for form in forms {
            formatter.dateFormat = form
            if let date = formatter.date(from: text) { return date }
        }
        return nil
    }
}
