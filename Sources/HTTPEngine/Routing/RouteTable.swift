/// The paths of a router and, for each, which route answers which method. Not generic, so that it is compiled once and
/// needs no metadata at run time.
struct RouteTable: Sendable {
    private let paths: [Path]
    private let allMethods: String

    init(_ routes: [(method: Method, pattern: StaticString)]) {
        var paths: [Path] = []
        for (index, route) in routes.enumerated() {
            let segments = Segment.parse(route.pattern)
            let entry = Path.Entry(method: route.method, pattern: route.pattern, index: index)
            if let known = paths.firstIndex(where: { $0.segments == segments }) {
                paths[known].add(entry)
            } else {
                paths.append(Path(segments: segments, entry: entry))
            }
        }
        // More specific paths first: at the first segment that differs in kind, the literal wins.
        self.paths = paths.sorted { Segment.isMoreSpecific($0.segments, than: $1.segments) }
        allMethods = Path.allow(routes.map(\.method))
    }

    func find(_ request: Request) -> RouteMatch {
        let path = request.rawPath
        if path.equals("*") { return .options(allow: allMethods) }
        let offset = request.target.path.lowerBound
        for candidate in paths {
            guard var parameters = candidate.parameters(of: path, offset: offset) else { continue }
            let entry = candidate.entry(for: request.method)
            parameters.names = entry?.pattern ?? candidate.pattern
            request.matched(candidate.pattern, parameters)
            if let entry { return .found(entry.index, parameters) }
            return request.method == .options
                ? .options(allow: candidate.allow) : .methodNotAllowed(allow: candidate.allow)
        }
        return .notFound
    }
}

/// The routes that share a path.
struct Path: Sendable {
    struct Entry: Sendable {
        let method: Method
        let pattern: StaticString
        /// The route's place among the router's.
        let index: Int
    }

    let segments: [Segment]
    let pattern: StaticString
    private(set) var entries: [Entry]
    private(set) var allow: String

    init(segments: [Segment], entry: Entry) {
        self.segments = segments
        pattern = entry.pattern
        entries = [entry]
        allow = Self.allow([entry.method])
    }

    mutating func add(_ entry: Entry) {
        precondition(!entries.contains { $0.method == entry.method }, "Two routes for \(entry.method.name) \(entry.pattern).")
        entries.append(entry)
        allow = Self.allow(entries.map(\.method))
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

    /// The parameters if the path matches, else nil.
    /// - Parameter offset: where the path begins in the request's storage.
    func parameters(of path: UnsafeRawBufferPointer, offset: Int) -> Parameters? {
        var parameters = Parameters()
        var position = 0
        for segment in segments {
            guard position < path.count, path[position] == UInt8(ascii: "/") else { return nil }
            let start = position + 1
            var end = start
            while end < path.count, path[end] != UInt8(ascii: "/") { end += 1 }
            switch segment {
            case .literal(let literal):
                guard literal.equals(path.slice(start..<end)) else { return nil }
            case .parameter:
                guard end > start else { return nil }
                parameters.append((start + offset)..<(end + offset))
            }
            position = end
        }
        if segments.isEmpty { return path.isEmpty || path.equals("/") ? parameters : nil }
        return position == path.count ? parameters : nil
    }
}

/// One part of a pattern between slashes.
enum Segment: Equatable, Sendable {
    case literal(Literal)
    case parameter

    /// The place of a literal segment in the pattern's own bytes: compared without a String.
    struct Literal: Equatable, Sendable {
        let pattern: StaticString
        let range: Range<Int>

        var bytes: UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(start: pattern.utf8Start, count: pattern.utf8CodeUnitCount).slice(range)
        }

        func equals(_ raw: UnsafeRawBufferPointer) -> Bool { PercentCoding.equals(raw, bytes) }

        static func == (left: Literal, right: Literal) -> Bool { left.bytes.elementsEqual(right.bytes) }
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
            segments.append(isParameter ? .parameter : .literal(Literal(pattern: pattern, range: start..<end)))
            start = end + 1
        }
        let parameters = segments.filter { $0 == .parameter }.count
        precondition(parameters <= Parameters.capacity, "The pattern \(pattern) has too many parameters.")
        return segments
    }

    static func isMoreSpecific(_ left: [Segment], than right: [Segment]) -> Bool {
        for (one, other) in zip(left, right) where one != other {
            switch (one, other) {
            case (.literal, .parameter): return true
            case (.parameter, .literal): return false
            default: continue
            }
        }
        return false
    }
}
