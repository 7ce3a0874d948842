/// The version of an app, such as `2.1.0`: whole numbers with dots between them, compared number by number. Missing ones
/// are 0, so that `2` and `2.0.0` are the same.
public struct AppVersion: Sendable {
    public let numbers: [UInt64]

    /// Nil for whatever is no such text.
    public init?(_ text: String) {
        var numbers: [UInt64] = []
        for part in text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false) {
            guard !part.isEmpty, part.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = UInt64(String(decoding: part, as: UTF8.self))
            else { return nil }
            numbers.append(number)
        }
        self.numbers = numbers
    }

    public var text: String { numbers.map(String.init).joined(separator: ".") }

    private func number(_ index: Int) -> UInt64 { index < numbers.count ? numbers[index] : 0 }
}

extension AppVersion: Comparable, Hashable {
    public static func == (left: AppVersion, right: AppVersion) -> Bool { !(left < right) && !(right < left) }

    public static func < (left: AppVersion, right: AppVersion) -> Bool {
        for index in 0..<max(left.numbers.count, right.numbers.count) where left.number(index) != right.number(index) {
            return left.number(index) < right.number(index)
        }
        return false
    }

    public func hash(into hasher: inout Hasher) {
        var significant = numbers[...]
        while significant.last == 0 { significant.removeLast() }
        hasher.combine(Array(significant))
    }
}
