import HTTPEngine
import Testing

@Suite("Request targets")
struct RequestTargetTests {
    @Test("A path and a query are split at the first question mark, undecoded")
    func split() throws {
        let request = try Request(.get, "/a%2Fb/c?x=1?&y=%20")
        #expect(request.path == "/a%2Fb/c")
        #expect(request.rawQuery.map { String(decoding: $0, as: UTF8.self) } == "x=1?&y=%20")
        #expect(request.query("x") == "1?")
        #expect(request.query("y") == " ")
    }

    @Test("A query is decoded once: plus is a space, %2B a plus, %2525 an escaped percent sign")
    func queryDecoding() throws {
        let request = try Request(.get, "/?a=1+2&b=1%2B2&c=%2525&d&=e&&f=%C3%A9&g=%FF")
        #expect(request.query("a") == "1 2")
        #expect(request.query("b") == "1+2")
        #expect(request.query("c") == "%25")
        #expect(request.query("d") == "")
        #expect(request.query("f") == "é")
        #expect(request.query("g") == nil, "bytes that aren't UTF-8 are no value")
        #expect(request.query("missing") == nil)
        #expect(request.hasQuery("g"), "but a name all the same")
        #expect(request.hasQuery("a") && request.hasQuery("d") && request.hasQuery("") && request.hasQuery("f"))
        #expect(!request.hasQuery("missing"))
    }

    @Test("The first of several equal names in a query counts")
    func firstOfSeveral() throws {
        #expect(try Request(.get, "/?a=1&a=2").query("a") == "1")
    }

    @Test("An escaped name in a query is the same name")
    func escapedName() throws {
        #expect(try Request(.get, "/?%6Cimit=5").query("limit") == "5")
    }

    @Test(
        "An absolute target loses its authority",
        arguments: [
            ("http://example.com/x?y=1", "/x"), ("HTTPS://EXAMPLE.com:443/x", "/x"), ("http://[::1]:80/x", "/x"),
        ])
    func absolute(target: String, path: String) throws {
        #expect(try Request(.get, target).path == path)
    }

    @Test("An absolute target without a path is the root")
    func absoluteRoot() throws {
        let request = try Request(.get, "http://example.com?a=1")
        #expect(request.path == "")
        #expect(request.query("a") == "1")
        let router = Router([Route(.get, "/", operationID: "root", handler: 1)])
        guard case .found = router.find(request) else { Issue.record("the root wasn't found"); return }
    }

    @Test(
        "What no URI may hold is refused",
        arguments: [
            "/a b", "/a\tb", "/a\u{7F}", "/é", "/a#b", "/%", "/%4", "/%zz", "/%00", "/a%2", "x", "", "http://", "http:///x",
            "ftp://h/x", "http://user@h/x", "http://h:x/y", "*", "//\u{1}",
        ])
    func refused(target: String) {
        #expect(throws: Refusal.self) { try Request(.get, target) }
    }

    @Test("Dots are not interpreted")
    func dots() throws {
        #expect(try Request(.get, "/a/../b").path == "/a/../b")
    }

    @Test("The asterisk is a target for OPTIONS only")
    func asterisk() throws {
        #expect(try Request(.options, "*").path == "*")
        #expect(throws: Refusal.self) { try Request(.post, "*") }
    }
}

@Suite("Requests")
struct RequestTests {
    @Test("Headers are found by their name in any case, without the white space around the value")
    func headers() throws {
        let request = try Request(.get, "/", headers: [("X-Thing", "a \t"), ("x-thing", "b"), ("ACCEPT", "c")])
        #expect(request.header("x-thing") == "a")
        #expect(request.headers("x-thing") == ["a", "b"])
        #expect(request.header("accept") == "c")
        #expect(request.header("absent") == nil)
        #expect(request.withHeader("accept") { $0?.count } == 1)
    }

    @Test(
        "A well-formed X-Request-Id is taken over, any other replaced",
        arguments: [
            ("abc-1.2_Z", true), (String(repeating: "a", count: 64), true), (String(repeating: "a", count: 65), false),
            ("a b", false), ("", false), ("a/b", false), ("<script>", false),
        ])
    func requestID(given: String, isTaken: Bool) throws {
        let request = try Request(.get, "/", headers: [("X-Request-Id", given)])
        #expect((request.id == given) == isTaken)
        #expect(!request.id.isEmpty)
        #expect(request.id == request.id)
    }

    @Test(
        "A header with a control character or a name that is no token is refused",
        arguments: [
            ("X", "a\u{0}"), ("X", "a\r\nb"), ("X", "12345678\u{1}"), ("X", "1234567\u{7F}890"), ("X Y", "a"), ("", "a"),
            ("Ü", "a"),
            ("X:", "a"), ("(x)", "a"),
        ])
    func malformedHeader(name: String, value: String) {
        #expect(throws: Refusal.self) { try Request(.get, "/", headers: [(name, value)]) }
    }

    @Test("A tab, obsolete text and every visible character may stand in a value")
    func wellFormedHeader() throws {
        let value = String(decoding: [UInt8](0x20...0x7E), as: UTF8.self) + "\té and more than eight bytes"
        #expect(try Request(.get, "/", headers: [("X", "." + value + ".")]).header("x") == "." + value + ".")
    }

    @Test("The methods keep their names", arguments: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW", "get"])
    func methods(name: String) {
        #expect(Method(name: name).name == name)
        #expect((Method(name: name) == .other(name)) == ["BREW", "get"].contains(name))
    }
}
