import SystemSupport
import Testing

@testable import CampanileServer

/// The demands of the format; that a parser agrees says e2e/contract/metrics.py.
@Suite struct OpenMetricsTextTests {
    private func text(_ write: (inout OpenMetricsText) -> Void) -> String {
        var text = OpenMetricsText()
        write(&text)
        return String(decoding: text.finish(), as: UTF8.self)
    }

    @Test("a family has its head and its samples, a counter's end with _total, and the whole ends with EOF")
    func families() {
        let text = text { text in
            text.family("things", .counter, "Things.")
            text.add([("kind", "small"), ("place", "here")], 3)
            text.add([("kind", "large")], 4)
            text.family("age_seconds", .gauge, unit: "seconds", "Age.")
            text.add([], "1.500")
            text.family("empty", .gauge, "None.")
        }
        #expect(
            text == """
                # TYPE things counter
                # HELP things Things.
                things_total{kind="small",place="here"} 3
                things_total{kind="large"} 4
                # TYPE age_seconds gauge
                # UNIT age_seconds seconds
                # HELP age_seconds Age.
                age_seconds 1.500
                # TYPE empty gauge
                # HELP empty None.
                # EOF

                """)
    }

    @Test("a histogram's buckets add up, and the last holds all")
    func histograms() {
        let histogram = Histogram(HistogramBounds([100_000, 1_000_000_000]))
        for value in [100_000, 100_001, 1_000_000_000, 7_000_000_001] as [UInt64] { histogram.record(value) }
        let text = text { text in
            text.family("time_seconds", .histogram, unit: "seconds", "Time.")
            text.add([("a", "b")], histogram.reading, perUnit: 1_000_000_000)
        }
        #expect(
            text.split(separator: "\n").dropFirst(3).dropLast() == [
                #"time_seconds_bucket{a="b",le="0.0001"} 1"#, #"time_seconds_bucket{a="b",le="1.0"} 3"#,
                #"time_seconds_bucket{a="b",le="+Inf"} 4"#, #"time_seconds_count{a="b"} 4"#,
                #"time_seconds_sum{a="b"} 8.000200002"#,
            ])
    }

    @Test("a label's value may hold anything")
    func escaping() {
        let text = text { text in
            text.family("things", .gauge, "Things.")
            text.add([("name", "a\\b\"c\nd{}")], 1)
        }
        #expect(text.contains(#"things{name="a\\b\"c\nd{}"} 1"# + "\n"))
    }

    @Test(
        "no digit of a large sum is lost",
        arguments: [
            (0 as UInt64, 1_000_000_000 as UInt64, "0.000000000"), (1, 1_000, "0.001"), (1_999, 1_000, "1.999"), (17, 1, "17"),
            (.max, 1_000_000_000, "18446744073.709551615"),
        ])
    func decimals(steps: UInt64, perUnit: UInt64, text: String) {
        #expect(OpenMetricsText.decimal(steps, per: perUnit) == text)
    }
}
