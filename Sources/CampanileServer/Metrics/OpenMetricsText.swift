import SystemSupport

/// Text in the format OpenMetrics 1.0, family by family: a family's head, then its samples.
struct OpenMetricsText {
    enum Kind: String {
        case counter, gauge, histogram
    }

    typealias Labels = [(name: String, value: String)]

    static let contentType: StaticString = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    private var text = ""
    private var name = ""
    private var kind = Kind.gauge

    /// Begins a family. What is added from here on is its.
    /// - Parameters:
    ///   - name: without `_total`; it ends with the unit, if there is one.
    ///   - help: a sentence on one line.
    mutating func family(_ name: String, _ kind: Kind, unit: String? = nil, _ help: String) {
        self.name = name
        self.kind = kind
        text += "# TYPE \(name) \(kind.rawValue)\n"
        if let unit { text += "# UNIT \(name) \(unit)\n" }
        text += "# HELP \(name) \(help)\n"
    }

    /// Adds a sample of a counter or a gauge.
    /// - Parameter value: a number in decimal digits.
    mutating func add(_ labels: Labels = [], _ value: String) {
        sample(kind == .counter ? "_total" : "", labels, value)
    }

    mutating func add(_ labels: Labels = [], _ value: some BinaryInteger) { add(labels, String(value)) }

    /// Adds a histogram.
    /// - Parameter perUnit: how many of the histogram's steps make one of the family's unit: a billion nanoseconds a second.
    mutating func add(_ labels: Labels = [], _ reading: HistogramReading, perUnit: UInt64 = 1) {
        var count: UInt64 = 0
        for (bucket, own) in reading.counts.enumerated() {
            count &+= own
            let bound = bucket < reading.bounds.upper.count ? "\(Double(reading.bounds.upper[bucket]) / Double(perUnit))" : "+Inf"
            sample("_bucket", labels + [(name: "le", value: bound)], String(count))
        }
        sample("_count", labels, String(count))
        sample("_sum", labels, Self.decimal(reading.sum, per: perUnit))
    }

    /// The whole, which ends with the mark that says so.
    consuming func finish() -> [UInt8] { Array((text + "# EOF\n").utf8) }

    private mutating func sample(_ suffix: String, _ labels: Labels, _ value: String) {
        text += name + suffix
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",") + "}"
        }
        text += " \(value)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }

    /// A number of small steps in a larger unit, exactly: a double would lose nanoseconds of a sum after a few months.
    /// - Parameter perUnit: a power of ten.
    static func decimal(_ steps: UInt64, per perUnit: UInt64) -> String {
        guard perUnit > 1 else { return String(steps) }
        let rest = String(perUnit + steps % perUnit).dropFirst()
        return "\(steps / perUnit).\(rest)"
    }
}
