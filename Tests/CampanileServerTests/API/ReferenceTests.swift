import Foundation
import Testing
import Yams

@testable import CampanileServer

/// `GET /docs`: openapi.yaml as a page, with nothing left out. e2e/contract/reference_page.py makes the page, and `make lint` makes
/// it again; here the page is held to openapi.yaml without that script.
@Suite struct ReferenceTests {
    private static func file(_ path: String) throws -> String {
        try String(contentsOf: HouseRulesTests.root.appending(path: path), encoding: .utf8)
    }

    private static func page() throws -> String { try file("Sources/CampanileServer/web/reference.html") }

    private static func contract() throws -> Node { try #require(try Yams.compose(yaml: file("openapi.yaml"))) }

    /// Every map of the document with its place.
    private static func maps(_ node: Node, _ place: [String] = []) -> [(place: [String], node: Node)] {
        var found: [(place: [String], node: Node)] = []
        if node.mapping != nil { found.append((place, node)) }
        for (key, value) in node.mapping ?? [:] { found += maps(value, place + [key.string ?? ""]) }
        for element in node.sequence ?? [] { found += maps(element, place) }
        return found
    }

    @Test("every operation has its part, with its parameters and answers, and a line in the contents")
    func operations() throws {
        let (page, document) = (try Self.page(), try Self.contract())
        let contents = try #require(page.split(separator: "</nav>").first)
        var count = 0
        for (path, item) in try #require(document["paths"]?.mapping) {
            for (method, operation) in try #require(item.mapping) {
                guard let id = operation["operationId"]?.string else { continue }
                count += 1
                let name = "\(method.string?.uppercased() ?? "") \(path.string ?? "")"
                let part = try #require(page.split(separator: "<section class=\"operation\" id=\"\(id)\">").last)
                let own = try #require(part.split(separator: "</section>").first)
                #expect(contents.contains("<li><a href=\"#\(id)\">"), "\(name) isn't in the contents")
                for written in Array(item["parameters"]?.sequence ?? []) + Array(operation["parameters"]?.sequence ?? []) {
                    let described = written["$ref"]?.string.flatMap { $0.split(separator: "/").last }
                    let parameter = described.map { document["components"]?["parameters"]?[String($0)] } ?? written
                    let field = try #require(parameter?["name"]?.string)
                    #expect(own.contains("<dt><code>\(field)</code>"), "\(name): \(field)")
                }
                for status in try #require(operation["responses"]?.mapping).compactMap(\.key.string) {
                    let isShown = own.contains("<strong>\(status)</strong>") || own.contains("\">\(status)</a>")
                    #expect(isShown, "\(name): \(status)")
                }
            }
        }
        #expect(count > 20)
    }

    @Test("every description and every summary of openapi.yaml is on the page")
    func descriptions() throws {
        var page = try Self.page().replacing(/<[^>]*>/, with: "")
        for (mark, character) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")] {
            page = page.replacing(mark, with: character)
        }
        var (count, missing) = (0, [String]())
        for (place, node) in Self.maps(try Self.contract()) where !place.contains("examples") && place.first != "servers" {
            for words in ["description", "summary"].compactMap({ node[$0]?.string }) {
                count += 1
                // The marks of code and of strong words became tags.
                let plain = words.replacing("`", with: "").replacing("**", with: "")
                let lines = plain.split(separator: "\n\n").map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
                missing += lines.filter { !page.contains($0) }.map { "\(place.joined(separator: "/")): \($0)" }
            }
        }
        #expect(count > 200)
        #expect(missing == [])
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
            let tag = try #require(answer.header("etag"))
            #expect(try await server.client.get("/docs", headers: ["If-None-Match": tag]).status == 304)
        }
    }
}
