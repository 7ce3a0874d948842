import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

/// `GET /docs`: openapi.yaml as a page, with nothing left out.
@Suite struct ReferenceTests {
    private static func contract() throws -> JSONValue {
        try JSONValue(yaml: String(contentsOf: HouseRulesTests.root.appending(path: "openapi.yaml"), encoding: .utf8))
    }

    private static func page() throws -> String { String(decoding: try ReferenceResource.html(), as: UTF8.self) }

    /// Every object of the document with its place.
    private static func objects(_ value: JSONValue, _ place: [String] = []) -> [(place: [String], value: JSONValue)] {
        var found: [(place: [String], value: JSONValue)] = []
        if !value.members.isEmpty { found.append((place, value)) }
        for member in value.members { found += objects(member.value, place + [member.key]) }
        for (index, element) in value.elements.enumerated() { found += objects(element, place + ["\(index)"]) }
        return found
    }

    @Test("every operation has its part, with its parameters and answers, and a line in the contents")
    func operations() throws {
        let (page, contract) = (try Self.page(), ReferenceContract(try Self.contract()))
        #expect(contract.operations.count > 20)
        for operation in contract.operations {
            let part = try #require(page.split(separator: "<section class=\"operation\" id=\"\(operation.id)\">").last)
            let own = try #require(part.split(separator: "</section>").first)
            #expect(page.contains("<li>\(operation.link)</li>"), "\(operation.name) isn't in the contents")
            for parameter in operation.parameters {
                let name = try #require(parameter["name"]?.words)
                #expect(own.contains("<dt><code>\(name)</code>"), "\(operation.name): \(name)")
            }
            for status in operation.operation["responses"]?.members.map(\.key) ?? [] {
                let isShown = own.contains("<strong>\(status)</strong>") || own.contains("\">\(status)</a>")
                #expect(isShown, "\(operation.name): \(status)")
            }
        }
    }

    @Test("every description and every summary of openapi.yaml is on the page")
    func descriptions() throws {
        let (page, document) = (try Self.page(), try Self.contract())
        let text = ReferenceContract(document).text
        var (count, missing) = (0, [String]())
        for (place, value) in Self.objects(document) where !place.contains("examples") && place.first != "servers" {
            // The members of a schema may be called so.
            guard place.last != "properties" else { continue }
            for key in ["description", "summary"] {
                guard let words = value[key]?.words else { continue }
                count += 1
                let lines = words.split(separator: "\n\n").map { text.inline(String($0)) }
                missing += lines.filter { !page.contains($0) }.map { "\(place.joined(separator: "/")): \($0)" }
            }
        }
        #expect(count > 200)
        #expect(missing == [])
    }

    @Test("openapi.yaml uses no keyword of JSON Schema that the page would leave out")
    func keywords() throws {
        var (unknown, count) = (Set<String>(), 0)
        func look(_ schema: JSONValue) {
            count += 1
            for member in schema.members {
                if !ReferenceSchema.keywords.contains(member.key) { unknown.insert(member.key) }
                switch member.key {
                case "properties": for property in member.value.members { look(property.value) }
                case "items", "additionalProperties", "not", "propertyNames": look(member.value)
                case "oneOf", "allOf": for choice in member.value.elements { look(choice) }
                default: break
                }
            }
        }
        let document = try Self.contract()
        for schema in document["components"]?["schemas"]?.members ?? [] { look(schema.value) }
        for (_, value) in Self.objects(document) { look(value["schema"] ?? .null) }
        #expect(count > 200)
        #expect(unknown == [])
    }

    @Test("a schema's words hold its type, its rules and its members")
    func schema() throws {
        let schema = ReferenceSchema(text: ReferenceText(operations: [:]))
        let value = try JSONValue(
            yaml: """
                type: object
                required: [name]
                properties:
                  name: {description: What `it` is, type: string, minLength: 1, maxLength: 9, x-max-bytes: 12, pattern: '^<a>$'}
                  size: {type: [integer, 'null'], minimum: 2, default: 3}
                  tags: {type: array, maxItems: 4, items: {$ref: '#/components/schemas/Tag'}}
                  kind: {oneOf: [{type: string, enum: [a, b]}, {type: 'null'}]}
                additionalProperties: {type: array, items: {type: object, properties: {deep: {const: yes}}}}
                """)
        let html = schema.details(value)
        #expect(schema.type(value) == "object of array of object")
        for part in [
            "<dt><code>name</code> <span class=\"type\">string</span> <em>required</em></dt>", "<p>What <code>it</code> is</p>",
            "at least <code>1</code> character; at most <code>12</code> bytes; pattern <code>^&lt;a&gt;$</code>",
            "<dt><code>size</code> <span class=\"type\">integer or null</span></dt>",
            "at least <code>2</code>; default <code>3</code>",
            "array of <a href=\"#schema-Tag\">Tag</a>", "at most <code>4</code> elements", "string or null",
            "<p class=\"rules\">string: one of <code>a</code>, <code>b</code></p>",
            "<dt><code>deep</code> <span class=\"type\"><code>yes</code></span></dt>",
        ] { #expect(html.contains(part), "\(part)\n\(html)") }
    }

    @Test(
        "a description's text is HTML: paragraphs, code, strong words, links to operations",
        arguments: [
            ("One\ntwo.\n\nThree.\n", "<p>One two.</p>\n<p>Three.</p>\n"),
            ("A **user**'s <b>.", "<p>A <strong>user</strong>'s &lt;b&gt;.</p>\n"),
            ("`a**b**<` & \"c\"", "<p><code>a**b**&lt;</code> &amp; &quot;c&quot;</p>\n"),
            ("See `GET /badge`.", "<p>See <a href=\"#getBadge\"><code>GET /badge</code></a>.</p>\n"),
        ])
    func text(_ written: String, _ html: String) {
        #expect(ReferenceText(operations: ["GET /badge": "getBadge"]).paragraphs(written) == html)
    }

    @Test("YAML's plain scalars have their meaning, and quoted ones are text")
    func yaml() throws {
        let value = try JSONValue(yaml: "{b: 1, a: '1', n: null, m: 'null', t: true, f: -1.5e+308, v: 0.1.0, e: , l: [x, 2]}")
        let text = #"{"b":1,"a":"1","n":null,"m":"null","t":true,"f":-1.5e+308,"v":"0.1.0","e":null,"l":["x",2]}"#
        #expect(String(decoding: value.text, as: UTF8.self) == text)
        #expect(throws: (any Error).self) { try JSONValue(yaml: "{a: [}") }
    }

    @Test("an example breaks its lines only where it is too long for one")
    func readable() throws {
        let long = String(repeating: "x", count: 100)
        let value: JSONValue = .object([.init("a", .array([1, 2])), .init("b", .string(long)), .init("c", .object([]))])
        #expect(value.readable() == "{\n  \"a\": [1, 2],\n  \"b\": \"\(long)\",\n  \"c\": {}\n}")
    }

    @Test("a header is called by its field's name, also where several fields of one name are described apart")
    func headers() throws {
        let page = try Self.page()
        let fields = [("RequestId", "X-Request-Id"), ("PrivateCache", "Cache-Control"), ("PublicCache", "Cache-Control")]
        for (description, field) in fields {
            #expect(page.contains("<dt id=\"header-\(description)\"><code>\(field)</code>"), "\(description)")
        }
    }

    @Test("every link of the page leads to a place on it, to openapi.yaml or to an asset, and no two places have one name")
    func links() throws {
        let page = try Self.page()
        let ids = page.matches(of: /\sid="([^"]*)"/).map { String($0.1) }
        #expect(Set(ids).count == ids.count)
        let addresses = Set(page.matches(of: /(?:href|src|action)="([^"]*)"/).map { String($0.1) })
        #expect(addresses.count > 100)
        for address in addresses {
            let isPlace = address.hasPrefix("#") && ids.contains(String(address.dropFirst()))
            let isAsset = address.wholeMatch(of: /\/assets\/\w+-[0-9a-f]{12}\.\w+/) != nil
            #expect(isPlace || isAsset || address == "/openapi.yaml", "\(address)")
        }
        #expect(!page.contains("<script") && !page.contains("style=") && !page.contains("<style"))
    }

    @Test("anyone may read it, it is one page for all, and it may load nothing from elsewhere")
    func served() async throws {
        try await withServer { server in
            let answer = try await server.client.get("/docs")
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "text/html; charset=utf-8")
            let policy = try #require(answer.header("content-security-policy"))
            #expect(policy.hasPrefix("default-src 'none'; style-src 'self'; img-src 'self';"))
            #expect(try String(decoding: answer.body, as: UTF8.self) == Self.page())
            let tag = try #require(answer.header("etag"))
            #expect(try await server.client.get("/docs", headers: ["If-None-Match": tag]).status == 304)
            for asset in String(decoding: answer.body, as: UTF8.self).matches(of: /"(\/assets\/[^"]*)"/) {
                #expect(try await server.client.get(String(asset.1)).status == 200, "\(asset.1)")
            }
        }
    }
}
