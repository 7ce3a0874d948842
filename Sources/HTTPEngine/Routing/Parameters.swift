/// The places of a path's parameters in the request. Fixed in size, so that matching allocates nothing.
struct Parameters: Sendable {
    static let capacity = 3

    private var ranges: (Range<Int>, Range<Int>, Range<Int>) = (0..<0, 0..<0, 0..<0)
    private(set) var count = 0

    mutating func append(_ range: Range<Int>) {
        switch count {
        case 0: ranges.0 = range
        case 1: ranges.1 = range
        default: ranges.2 = range
        }
        count += 1
    }

    func range(_ index: Int) -> Range<Int>? {
        guard index >= 0, index < count else { return nil }
        return switch index {
        case 0: ranges.0
        case 1: ranges.1
        default: ranges.2
        }
    }
}
