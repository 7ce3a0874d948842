/// One operation: a method, a path and its endpoint.
///
/// `Endpoint` is any type of the application's, usually a function of the request and its context.
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

/// Finds the route for a request, from the raw bytes of its path and without allocating.
///
/// A literal segment beats a parameter. Percent escapes in a literal segment are decoded for the comparison, so that
/// `/b%61dge` is `/badge` (RFC 3986, section 6.2.2.2), while `%2F` never separates segments.
package struct Router<Endpoint: Sendable>: Sendable {
    /// All routes, as they were given.
    package let routes: [Route<Endpoint>]
    private let table: RouteTable
    /// The pattern of each path, once; `Request.routePatternIndex` is a place in this list.
    package let patterns: [StaticString]

    /// Misuse is fatal: a pattern that doesn't begin with `/`, has an empty segment or more parameters than fit,
    /// or two routes for the same method and path.
    package init(_ routes: [Route<Endpoint>]) {
        self.routes = routes
        table = RouteTable(routes.map { ($0.method, $0.pattern) })
        patterns = table.patterns
    }

    /// Finds the index of the route in `routes`, and gives the request its pattern and parameters. Doesn't return the
    /// route itself: a generic function that does isn't specialised across modules and asks the runtime for metadata,
    /// about half a microsecond.
    package func find(_ request: Request) -> RouteMatch { table.find(request) }
}

/// A router's result for a request.
package enum RouteMatch: Sendable {
    /// The index of the route among the router's.
    case found(Int)
    /// OPTIONS on a known path, or `OPTIONS *`: 204 with these methods.
    case options(allow: String)
    /// The path exists, the method doesn't: 405 with these methods.
    case methodNotAllowed(allow: String)
    case notFound
}
