/// A moment as milliseconds since 1970 UTC: how the database and the program hold time. Text is RFC 3339 in UTC with
/// milliseconds, `2026-11-21T05:45:00.000Z`.
public struct Timestamp: Hashable, Comparable, Sendable {
    public let milliseconds: Int64

    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    public static func < (left: Timestamp, right: Timestamp) -> Bool { left.milliseconds < right.milliseconds }

    /// The 24 bytes of the text, one after the other. The years 0000 to 9999 are written; others are clamped to them.
    @inlinable
    public func write(to buffer: UnsafeMutableBufferPointer<UInt8>) {
        let clamped = min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999)
        let days = (clamped >= 0 ? clamped : clamped - 86_399_999) / 86_400_000
        var rest = Int(clamped - days * 86_400_000)
        let (year, month, day) = Timestamp.civil(days: days)
        Timestamp.digits(year, 4, at: 0, in: buffer)
        buffer[4] = UInt8(ascii: "-")
        Timestamp.digits(month, 2, at: 5, in: buffer)
        buffer[7] = UInt8(ascii: "-")
        Timestamp.digits(day, 2, at: 8, in: buffer)
        buffer[10] = UInt8(ascii: "T")
        Timestamp.digits(rest / 3_600_000, 2, at: 11, in: buffer)
        rest %= 3_600_000
        buffer[13] = UInt8(ascii: ":")
        Timestamp.digits(rest / 60_000, 2, at: 14, in: buffer)
        rest %= 60_000
        buffer[16] = UInt8(ascii: ":")
        Timestamp.digits(rest / 1_000, 2, at: 17, in: buffer)
        buffer[19] = UInt8(ascii: ".")
        Timestamp.digits(rest % 1_000, 3, at: 20, in: buffer)
        buffer[23] = UInt8(ascii: "Z")
    }

    /// The Gregorian date of a day count since 1970-01-01: the year is taken to begin in March, so that the leap day is
    /// its last, and 400-year eras make every division exact.
    @inlinable
    static func civil(days: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = Int(days) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    @inlinable
    static func digits(_ value: Int, _ count: Int, at offset: Int, in buffer: UnsafeMutableBufferPointer<UInt8>) {
        var value = value
        var index = offset + count - 1
        while index >= offset {
            buffer[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10)
            value /= 10
            index -= 1
        }
    }
}

extension Timestamp: CustomStringConvertible {
    public var description: String {
        String(unsafeUninitializedCapacity: 24) { buffer in
            write(to: buffer)
            return 24
        }
    }
}

extension Timestamp {
    /// Reads an RFC 3339 date-time with any offset and any number of fractional digits (those beyond milliseconds are
    /// dropped); nil when it is not one. A leap second, `:60`, counts as the following second.
    public init?(_ text: String) {
        var reader = DateTimeReader(bytes: Array(text.utf8))
        guard let milliseconds = reader.read() else { return nil }
        self.milliseconds = milliseconds
    }
}

private struct DateTimeReader {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func read() -> Int64? {
        guard let year = number(4), skip("-"), let month = number(2), skip("-"), let day = number(2),
            skip("T") || skip("t") || skip(" "),
            let hour = number(2), skip(":"), let minute = number(2), skip(":"), let second = number(2),
            let fraction = fraction(), let offset = offset(), position == bytes.count,
            (1...12).contains(month), day >= 1, day <= DateTimeReader.days(in: month, of: year),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        let days = DateTimeReader.daysSince1970(year: year, month: month, day: day)
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset
        return Int64(seconds) * 1_000 + Int64(fraction)
    }

    private mutating func number(_ count: Int) -> Int? {
        guard position + count <= bytes.count else { return nil }
        var value = 0
        for byte in bytes[position..<position + count] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        position += count
        return value
    }

    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func fraction() -> Int? {
        guard skip(".") else { return 0 }
        var milliseconds = 0
        var count = 0
        while let digit = number(1) {
            if count < 3 { milliseconds = milliseconds * 10 + digit }
            count += 1
        }
        guard count > 0 else { return nil }
        for _ in min(count, 3)..<3 { milliseconds *= 10 }
        return milliseconds
    }

    private mutating func offset() -> Int? {
        if skip("Z") || skip("z") { return 0 }
        let sign = skip("+") ? 1 : skip("-") ? -1 : 0
        guard sign != 0, let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60
        else { return nil }
        return sign * (hours * 3_600 + minutes * 60)
    }

    private static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let marchYear = month <= 2 ? year - 1 : year
        let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let yearOfEra = marchYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
