package import SystemSupport

/// Histograms of the writer's work since it began.
package struct WriterStatistics: Sendable {
    static let sizeBounds = HistogramBounds([1, 2, 4, 8, 16, 32, 64, 128, 256])
    static let timeBounds = HistogramBounds([
        100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000,
        1_000_000_000,
    ])

    /// With a bound at the 20 ms that no job should hold the writer.
    static let holdBounds = HistogramBounds([
        100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000, 250_000_000,
        1_000_000_000,
    ])

    /// How many writes were in one transaction, committed or not.
    package let groupSizes: HistogramReading
    /// How long commits took that succeeded, which is mostly how long the disk took to sync the log.
    package let commitNanoseconds: HistogramReading
    /// How long a write held the writer with its own statements, without the commit and the effects after it; and how long the
    /// listeners to another program's change held it. A write that ran twice counts twice.
    package let holdNanoseconds: HistogramReading
}
