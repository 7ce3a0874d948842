import HTTPEngine

extension Request {
    /// The trace that the request belongs to; nil without `traceparent`, with an invalid one or with several.
    var traceParent: TraceParent? {
        withOnlyHeader("traceparent") { $0.flatMap { TraceParent($0) } }
    }

    /// Appends the literal and the id of that trace, if there is one, without making a String of it.
    func appendTraceID(after literal: StaticString, to line: inout [UInt8]) {
        withOnlyHeader("traceparent") { value in
            guard let value, TraceParent.isValid(value) else { return }
            line.append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
            line.append(contentsOf: value[TraceParent.traceIDBytes])
        }
    }
}
