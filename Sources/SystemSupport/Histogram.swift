/// The bounds of a histogram's buckets, and how it lies in counters: a cell for each bucket, one for what is above all
/// bounds, one for the sum of the values.
package struct HistogramBounds: Sendable, Equatable {
    /// In ascending order. A value on a bound belongs below it.
    package let upper: [UInt64]

    package init(_ upper: [UInt64]) { self.upper = upper }

    /// The number of cells.
    package var cellCount: Int { upper.count + 2 }

    /// - Parameter first: the first of the cells.
    @inlinable
    package func record(_ value: UInt64, in counters: Counters, at first: Int) {
        var bucket = 0
        while bucket < upper.count, value > upper[bucket] { bucket &+= 1 }
        counters.add(1, at: first + bucket)
        counters.add(value, at: first + upper.count + 1)
    }

    package func read(_ counters: Counters, at first: Int) -> HistogramReading {
        HistogramReading(
            bounds: self, counts: (0...upper.count).map { counters[first + $0] }, sum: counters[first + upper.count + 1])
    }
}

/// The contents of a histogram at a moment.
package struct HistogramReading: Sendable, Equatable {
    package let bounds: HistogramBounds
    /// The values of each bucket alone; the last counts those above all bounds.
    package private(set) var counts: [UInt64]
    package private(set) var sum: UInt64

    /// Of buckets that are read once, so that it fits them even while somebody counts.
    package var count: UInt64 { counts.reduce(0, &+) }

    /// Adds another reading with the same bounds.
    package mutating func add(_ other: HistogramReading) {
        precondition(other.bounds == bounds, "Histograms with different bounds can't be added.")
        for (index, count) in other.counts.enumerated() { counts[index] &+= count }
        sum &+= other.sum
    }
}

/// A histogram that one thread at a time records in and any thread reads.
package final class Histogram: Sendable {
    private let bounds: HistogramBounds
    private let counters: Counters

    package init(_ bounds: HistogramBounds) {
        self.bounds = bounds
        counters = Counters(count: bounds.cellCount)
    }

    package func record(_ value: UInt64) { bounds.record(value, in: counters, at: 0) }

    package var reading: HistogramReading { bounds.read(counters, at: 0) }
}
