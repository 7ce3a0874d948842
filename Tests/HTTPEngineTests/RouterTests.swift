import HTTPEngine
import Testing

@Suite("Router")
struct RouterTests {
    let router = Router([
        Route(.get, "/notifications", operationID: "list", handler: "list"),
        Route(.post, "/notifications", operationID: "create", handler: "create"),
        Route(.get, "/notifications/{id}", operationID: "show", handler: "show"),
        Route(.delete, "/notifications/{key}", operationID: "delete", handler: "delete"),
        Route(.post, "/notifications/mark_all_read", operationID: "mark", handler: "mark"),
        Route(.get, "/notifications/{id}/deliveries", operationID: "deliveries", handler: "deliveries"),
        Route(.get, "/v1/{a}/{b}/{c}", operationID: "three", handler: "three"),
        Route(.other("PURGE"), "/cache", operationID: "purge", handler: "purge"),
    ])

    private func find(_ method: Method, _ target: String) throws -> String {
        switch router.find(try Request(method, target)) {
        case .found(let index): router.routes[index].handler
        case .options(let allow): "options \(allow)"
        case .methodNotAllowed(let allow): "405 \(allow)"
        case .notFound: "404"
        }
    }

    @Test(
        "A path and a method find their route",
        arguments: [
            (Method.get, "/notifications", "list"), (.get, "/notifications?limit=1", "list"), (.post, "/notifications", "create"),
            (.get, "/notifications/42", "show"), (.get, "/notifications/42/deliveries", "deliveries"),
            (.get, "/v1/x/y/z", "three"), (.other("PURGE"), "/cache", "purge"),
        ])
    func found(method: Method, target: String, handler: String) throws {
        #expect(try find(method, target) == handler)
    }

    @Test("A literal segment beats a parameter, whichever was declared first")
    func literalWins() throws {
        #expect(try find(.post, "/notifications/mark_all_read") == "mark")
        #expect(try find(.get, "/notifications/mark_all_read") == "405 POST, OPTIONS")
    }

    @Test("A literal segment beats a parameter among many paths that have nothing in common, in every order")
    func literalWinsAmongMany() throws {
        let patterns: [StaticString] = [
            "/notifications", "/notifications/mark_all_read", "/notifications/{id}", "/notifications/{id}/deliveries",
            "/device_tokens", "/device_tokens/{token}", "/badge", "/badge/stream", "/notifications/stream", "/healthz",
        ]
        for turn in patterns.indices {
            let turned = Array(patterns[turn...] + patterns[..<turn])
            let router = Router(turned.map { Route(.get, $0, operationID: $0, handler: "\($0)") })
            for literal in patterns where !"\(literal)".contains("{") {
                guard case .found(let index) = router.find(try Request(.get, "\(literal)")) else {
                    Issue.record("\(literal) is not found after \(turn) turns")
                    continue
                }
                #expect(router.routes[index].handler == "\(literal)", "after \(turn) turns")
            }
        }
    }

    @Test("HEAD is answered by GET and stays HEAD")
    func head() throws {
        let request = try Request(.head, "/notifications")
        guard case .found(let index) = router.find(request) else { Issue.record("not found"); return }
        #expect(router.routes[index].handler == "list")
        #expect(request.method == .head)
    }

    @Test(
        "An unknown method on a known path is 405 with the methods it has",
        arguments: [
            (Method.put, "/notifications", "405 GET, HEAD, POST, OPTIONS"),
            (.other("BREW"), "/notifications/1", "405 GET, HEAD, DELETE, OPTIONS"),
            (.head, "/notifications/mark_all_read", "405 POST, OPTIONS"), (.get, "/cache", "405 PURGE, OPTIONS"),
        ])
    func methodNotAllowed(method: Method, target: String, answer: String) throws {
        #expect(try find(method, target) == answer)
    }

    @Test("OPTIONS tells the methods of a path, and of the whole server")
    func options() throws {
        #expect(try find(.options, "/notifications") == "options GET, HEAD, POST, OPTIONS")
        #expect(try find(.options, "*") == "options GET, HEAD, POST, DELETE, PURGE, OPTIONS")
        #expect(try find(.options, "/nowhere") == "404")
    }

    @Test(
        "What isn't exactly a route's path is not found",
        arguments: [
            "/", "/notification", "/notifications/", "/notifications//deliveries", "/notifications/1/deliveries/",
            "//notifications",
            "/Notifications", "/v1/x/y", "/v1/x/y/z/w", "/notifications%2F42", "/notifications/42%2Fdeliveries/x",
        ])
    func notFound(target: String) throws {
        #expect(try find(.get, target) == "404")
    }

    @Test("An escaped letter in a literal segment is that letter")
    func escapedLiteral() throws {
        #expect(try find(.get, "/n%6Ftifications") == "list")
        #expect(try find(.post, "/notifications/mark%5Fall%5fread") == "mark")
    }

    @Test("A request knows the place of its pattern among the router's, where each path stands once")
    func patternIndex() throws {
        #expect(router.patterns.count == 6)
        for (method, target) in [
            (Method.get, "/notifications/42"), (.post, "/notifications"), (.get, "/notifications"), (.put, "/cache"),
            (.options, "/v1/x/y/z"),
        ] {
            let request = try Request(method, target)
            #expect(request.routePatternIndex == nil)
            _ = router.find(request)
            let index = try #require(request.routePatternIndex)
            #expect("\(router.patterns[index])" == request.routePattern.map { "\($0)" }, "\(target)")
        }
        let stranger = try Request(.get, "/nowhere")
        _ = router.find(stranger)
        #expect(stranger.routePatternIndex == nil)
    }

    @Test(
        "A parameter is decoded once; an escaped slash belongs to it",
        arguments: [
            ("/notifications/a%2Fb", "a/b"), ("/notifications/a%252Fb", "a%2Fb"), ("/notifications/a+b", "a+b"),
            ("/notifications/%C3%A9", "é"), ("/notifications/..", ".."),
        ])
    func parameters(target: String, value: String) throws {
        let request = try Request(.get, target)
        guard case .found = router.find(request) else { Issue.record("not found"); return }
        #expect(request.parameter(0) == value)
        #expect(request.parameter(1) == nil)
        #expect(request.routePattern.map { "\($0)" } == "/notifications/{id}")
    }

    @Test("A parameter that isn't UTF-8 has no text")
    func parameterBytes() throws {
        let request = try Request(.get, "/notifications/%FF")
        guard case .found = router.find(request) else { Issue.record("not found"); return }
        #expect(request.parameter(0) == nil)
    }

    @Test("Routes of one path may name its parameter differently")
    func parameterNames() throws {
        let request = try Request(.delete, "/notifications/7")
        guard case .found(let index) = router.find(request) else { Issue.record("not found"); return }
        #expect(router.routes[index].handler == "delete")
        #expect(request.parameter(0) == "7")
    }

    @Test("Three parameters keep their order")
    func threeParameters() throws {
        let request = try Request(.get, "http://h/v1/x/y/z")
        guard case .found = router.find(request) else { Issue.record("not found"); return }
        #expect((0..<3).map { request.parameter($0) } == ["x", "y", "z"])
    }
}
