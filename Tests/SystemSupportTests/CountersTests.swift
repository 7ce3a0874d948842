import SystemSupport
import Testing

@Suite("Counters")
struct CountersTests {
    @Test("they begin at 0, keep what each cell was given, and touch no other")
    func cells() {
        let counters = Counters(count: 40)
        for index in 0..<40 { #expect(counters[index] == 0) }
        for index in 0..<40 { counters.add(UInt64(index), at: index) }
        counters.add(.max, at: 7)
        for index in 0..<40 where index != 7 { #expect(counters[index] == UInt64(index)) }
        #expect(counters[7] == 6, "beyond the largest number they begin anew")
    }

    @Test("a thread sees what another has counted")
    func threads() {
        let counters = Counters(count: 2)
        let thread = SystemThread.required(name: "counting") { for _ in 0..<1_000 { counters.add(1, at: 1) } }
        thread.join()
        #expect(counters[0] == 0 && counters[1] == 1_000)
    }
}

@Suite("Histograms")
struct HistogramTests {
    private static let bounds = HistogramBounds([10, 20, 1_000])

    @Test(
        "a value falls into the first bucket whose bound it doesn't exceed",
        arguments: [(0 as UInt64, 0), (10, 0), (11, 1), (20, 1), (21, 2), (1_000, 2), (1_001, 3), (.max, 3)])
    func buckets(value: UInt64, bucket: Int) {
        let histogram = Histogram(Self.bounds)
        histogram.record(value)
        #expect(histogram.reading.counts == (0...3).map { $0 == bucket ? 1 : 0 })
        #expect(histogram.reading.sum == value && histogram.reading.count == 1)
    }

    @Test("several lie in the same counters, each in its own cells")
    func places() {
        let counters = Counters(count: 2 * Self.bounds.cellCount)
        Self.bounds.record(5, in: counters, at: 0)
        Self.bounds.record(2_000, in: counters, at: 5)
        Self.bounds.record(15, in: counters, at: 5)
        #expect(Self.bounds.cellCount == 5)
        #expect(Self.bounds.read(counters, at: 0).counts == [1, 0, 0, 0])
        var sum = Self.bounds.read(counters, at: 5)
        #expect(sum.counts == [0, 1, 0, 1] && sum.sum == 2_015)
        sum.add(Self.bounds.read(counters, at: 0))
        #expect(sum.counts == [1, 1, 0, 1] && sum.sum == 2_020 && sum.count == 3)
    }
}
