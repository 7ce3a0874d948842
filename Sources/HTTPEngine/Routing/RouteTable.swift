/// The paths of a router and, for each, the route of each method. Not generic, so that it is compiled once and needs no
/// metadata at run time.
final class RouteTable: Sendable {
    private let paths: [Path]
    private let allMethods: String

    /// The patterns of the paths, in the order of their search.
    var patterns: [StaticString] { paths.map(\.pattern) }

    init(_ routes: [(method: Method, pattern: StaticString)]) {
        var entries: [(segments: [Segment], entries: [Path.Entry])] = []
        for (index, route) in routes.enumerated() {
            let segments = Segment.parse(route.pattern)
            let entry = Path.Entry(method: route.method, pattern: route.pattern, index: index)
            if let known = entries.firstIndex(where: { $0.segments == segments }) {
                entries[known].entries.append(entry)
            } else {
                entries.append((segments, [entry]))
            }
        }
        // More specific paths first: at the first segment that differs in kind, the literal wins.
        paths = entries.sorted { Segment.isMoreSpecific($0.segments, than: $1.segments) }
            .enumerated().map { Path(segments: $1.segments, entries: $1.entries, index: $0) }
        allMethods = Path.allow(routes.map(\.method))
    }

    func find(_ request: Request) -> RouteMatch {
        let path = request.rawPath
        if path.count == 1, path[0] == UInt8(ascii: "*") { return .options(allow: allMethods) }
        let offset = request.target.path.lowerBound
        for candidate in paths {
            var parameters = Parameters()
            guard candidate.matches(path, offset: offset, &parameters) else { continue }
            let entry = candidate.entry(for: request.method)
            request.matched(candidate.pattern, index: candidate.index, parameters)
            if let entry { return .found(entry.index) }
            return request.method == .options
                ? .options(allow: candidate.allow) : .methodNotAllowed(allow: candidate.allow)
        }
        return .notFound
    }
}

/// The routes that share a path.
final class Path: Sendable {
    struct Entry: Sendable {
        let method: Method
        let pattern: StaticString
        /// The route's index among the router's.
        let index: Int
    }

    private let segments: [Segment]
    let pattern: StaticString
    /// Its place among the table's paths.
    let index: Int
    private let entries: [Entry]
    let allow: String

    init(segments: [Segment], entries: [Entry], index: Int) {
        self.segments = segments
        self.entries = entries
        self.index = index
        pattern = entries[0].pattern
        let methods = entries.map(\.method)
        precondition(Set(methods).count == methods.count, "Two routes for one method of \(entries[0].pattern).")
        allow = Self.allow(methods)
    }

    /// The route for a method; HEAD is answered by GET (RFC 9110, section 9.3.2).
    func entry(for method: Method) -> Entry? {
        for entry in entries where entry.method == method { return entry }
        guard method == .head else { return nil }
        for entry in entries where entry.method == .get { return entry }
        return nil
    }

    /// The value of `Allow`, in one fixed order.
    static func allow(_ methods: [Method]) -> String {
        let known: [Method] = [.get, .head, .post, .put, .patch, .delete]
        var names = known.filter { methods.contains($0) || ($0 == .head && methods.contains(.get)) }.map(\.name)
        for case .other(let name) in methods where !names.contains(name) { names.append(name) }
        return (names + ["OPTIONS"]).joined(separator: ", ")
    }

    /// Returns whether the path matches.
    /// - Parameters:
    ///   - offset: the path's beginning in the request's storage.
    ///   - parameters: receives the segments of the braces.
    func matches(_ path: UnsafeRawBufferPointer, offset: Int, _ parameters: inout Parameters) -> Bool {
        if segments.isEmpty { return path.isEmpty || path.equals("/") }
        var position = 0
        for segment in segments {
            guard position < path.count, path[position] == UInt8(ascii: "/") else { return false }
            let start = position + 1
            var end = start
            while end < path.count, path[end] != UInt8(ascii: "/") { end += 1 }
            if let literal = segment.literal {
                guard PercentCoding.equals(path.slice(start..<end), literal) else { return false }
            } else {
                guard end > start else { return false }
                parameters.append((start + offset)..<(end + offset))
            }
            position = end
        }
        return position == path.count
    }
}

/// One segment of a pattern: a literal, in the pattern's own bytes, or a parameter.
///
/// Sendable, because the bytes belong to a literal of the program and never change.
struct Segment: Equatable, @unchecked Sendable {
    /// Nil for a parameter.
    let literal: UnsafeRawBufferPointer?

    static func == (left: Segment, right: Segment) -> Bool {
        guard let one = left.literal, let other = right.literal else { return left.literal == nil && right.literal == nil }
        return one.elementsEqual(other)
    }

    static func parse(_ pattern: StaticString) -> [Segment] {
        precondition(pattern.hasPointerRepresentation, "A pattern is a path, not a character.")
        let bytes = UnsafeRawBufferPointer(start: pattern.utf8Start, count: pattern.utf8CodeUnitCount)
        precondition(bytes.first == UInt8(ascii: "/"), "The pattern \(pattern) doesn't begin with a slash.")
        guard bytes.count > 1 else { return [] }
        var segments: [Segment] = []
        var start = 1
        while start <= bytes.count {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "/")) ?? bytes.count
            precondition(end > start, "The pattern \(pattern) has an empty segment.")
            let isParameter = bytes[start] == UInt8(ascii: "{") && bytes[end - 1] == UInt8(ascii: "}")
            segments.append(Segment(literal: isParameter ? nil : bytes.slice(start..<end)))
            start = end + 1
        }
        let parameters = segments.count { $0.literal == nil }
        precondition(parameters <= Parameters.capacity, "The pattern \(pattern) has too many parameters.")
        return segments
    }

    /// By the kinds alone, even for paths that can't both match, and then by length: a sort needs a total order.
    static func isMoreSpecific(_ left: [Segment], than right: [Segment]) -> Bool {
        for (one, other) in zip(left, right) where (one.literal == nil) != (other.literal == nil) {
            return one.literal != nil
        }
        return left.count < right.count
    }
}
