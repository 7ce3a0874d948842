import CampanileCore
import NIOHPACK

/// `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date.
enum RetryAfter {
    /// The longest wait: a day.
    static let longestMilliseconds: Int64 = 24 * 3_600_000

    /// - Parameter now: called only if the field has a date.
    /// - Returns: milliseconds from now; nil without a readable field.
    static func milliseconds(in headers: HPACKHeaders, now: () -> Timestamp) -> Int64? {
        guard let text = headers.first(name: "retry-after") else { return nil }
        return milliseconds(text, now: now)
    }

    static func milliseconds(_ text: String, now: () -> Timestamp) -> Int64? {
        let trimmed = text.filter { $0 != "\t" }.split(separator: " ").joined(separator: " ")
        if !trimmed.isEmpty, trimmed.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            return min(Int64(trimmed) ?? longestMilliseconds, longestMilliseconds / 1_000) * 1_000
        }
        guard let date = date(trimmed) else { return nil }
        return min(max(date - now().milliseconds, 0), longestMilliseconds)
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7), as milliseconds since 1970.
    private static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(of: String(words[2])),
            let day = Int(words[1]), words[3].utf8.count == 4
        else { return nil }
        let twoDigits = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return Timestamp("\(words[3])-\(twoDigits(month + 1))-\(twoDigits(day))T\(words[4])Z")?.milliseconds
    }
}
