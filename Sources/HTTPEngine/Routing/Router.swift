/// One operation: a method, a path and what answers to it.
///
/// `Endpoint` is whatever the application wants to find, usually a function of the request and its context.
package struct Route<Endpoint: Sendable>: Sendable {
    package let method: Method
    /// A path such as `/notifications/{id}`. A segment in braces takes exactly one non-empty segment of the target.
    package let pattern: StaticString
    /// The operation's name in the API description.
    package let operationID: StaticString
    package let handler: Endpoint

    package init(_ method: Method, _ pattern: StaticString, operationID: StaticString, handler: Endpoint) {
        self.method = method
        self.pattern = pattern
        self.operationID = operationID
        self.handler = handler
    }
}

/// Finds the route for a request, on the raw bytes of its path and without allocating.
///
/// A literal segment beats a parameter. Percent escapes in a literal segment are decoded for the comparison, so that
/// `/b%61dge` is `/badge` (RFC 3986, section 6.2.2.2), while `%2F` never separates segments.
package struct Router<Endpoint: Sendable>: Sendable {
    package enum Match: Sendable {
        case found(Route<Endpoint>, Parameters)
        /// OPTIONS on a known path, or `OPTIONS *`: 204 with these methods.
        case options(allow: String)
        /// The path exists, the method doesn't: 405 with these methods.
        case methodNotAllowed(allow: String)
        case notFound
    }

    /// All routes, as they were given.
    package let routes: [Route<Endpoint>]
    private let paths: [Path<Endpoint>]
    private let allMethods: String

    /// Misuse is fatal: a pattern that doesn't begin with `/`, has an empty segment or more parameters than fit,
    /// or two routes for the same method and path.
    package init(_ routes: [Route<Endpoint>]) {
        self.routes = routes
        var paths: [Path<Endpoint>] = []
        for route in routes {
            let segments = Segment.parse(route.pattern)
            if let index = paths.firstIndex(where: { $0.segments == segments }) {
                paths[index].add(route)
            } else {
                paths.append(Path(segments: segments, route: route))
            }
        }
        // More specific paths first: at the first segment that differs in kind, the literal wins.
        self.paths = paths.sorted { Segment.isMoreSpecific($0.segments, than: $1.segments) }
        allMethods = Path<Endpoint>.allow(routes.map(\.method))
    }

    /// Finds the route, and tells the request its pattern and parameters.
    package func match(_ request: Request) -> Match {
        let path = request.rawPath
        if path.equals("*") { return .options(allow: allMethods) }
        for candidate in paths {
            guard var parameters = candidate.parameters(of: path, offset: request.target.path.lowerBound) else { continue }
            parameters.names = candidate.names(for: request.method)
            request.matched(candidate.pattern, parameters)
            if let route = candidate.route(for: request.method) { return .found(route, parameters) }
            return request.method == .options
                ? .options(allow: candidate.allow) : .methodNotAllowed(allow: candidate.allow)
        }
        return .notFound
    }
}

/// The routes that share a path.
struct Path<Endpoint: Sendable>: Sendable {
    let segments: [Segment]
    let pattern: StaticString
    private(set) var routes: [Route<Endpoint>]
    private(set) var allow: String

    init(segments: [Segment], route: Route<Endpoint>) {
        self.segments = segments
        pattern = route.pattern
        routes = [route]
        allow = Self.allow([route.method])
    }

    mutating func add(_ route: Route<Endpoint>) {
        precondition(!routes.contains { $0.method == route.method }, "Two routes for \(route.method.name) \(route.pattern).")
        routes.append(route)
        allow = Self.allow(routes.map(\.method))
    }

    /// The route for a method; HEAD is answered by GET (RFC 9110, section 9.3.2).
    func route(for method: Method) -> Route<Endpoint>? {
        for route in routes where route.method == method { return route }
        guard method == .head else { return nil }
        for route in routes where route.method == .get { return route }
        return nil
    }

    func names(for method: Method) -> StaticString { route(for: method)?.pattern ?? pattern }

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
