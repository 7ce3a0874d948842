import CampanileCore
import Foundation
import Testing

@testable import CampanileClient

/// Shows screens as words.
@MainActor
private final class Coordinator: DeepLinkCoordinator {
    var shown: [String] = []

    func prepareForDeepLink() { shown.append("prepared") }
    func show(_ page: DeepLinkPage, animated: Bool) { shown.append(page.address + (animated ? " animated" : "")) }
}

private struct Home: DeepLinkScreen {
    static let path = "home"
    init(_ values: DeepLinkValues) {}
    func show(in coordinator: Coordinator, animated: Bool) { coordinator.shown.append("Home" + (animated ? " animated" : "")) }
}

private struct Soptamp: DeepLinkScreen {
    static let path = "home/soptamp"
    let push: PushPayload?
    init(_ values: DeepLinkValues) { push = values.push }
    func show(in coordinator: Coordinator, animated: Bool) { coordinator.shown.append("Soptamp" + (animated ? " animated" : "")) }
}

private struct Ranking: DeepLinkScreen {
    static let path = "/home/soptamp/current-generation-ranking"
    let generation: Int
    let isLive: Bool?
    init(_ values: DeepLinkValues) throws {
        generation = try values.query("currentGeneration")
        isLive = try values.queryIfPresent("live")
    }
    func show(in coordinator: Coordinator, animated: Bool) {
        coordinator.shown.append("Ranking \(generation)" + (animated ? " animated" : ""))
    }
}

private struct Resource: DeepLinkScreen {
    struct TooLarge: Error {}
    static let path = "resources/:id"
    let id: Int
    init(_ values: DeepLinkValues) throws {
        guard let id = Int(try values.parameter("id")) else { throw TooLarge() }
        self.id = id
    }
    func show(in coordinator: Coordinator, animated: Bool) { coordinator.shown.append("Resource \(id)") }
}

@Suite("Deep links in an app")
struct DeepLinkRouterTests {
    private static let tree = DeepLinkTree([
        .init(
            "home", title: "Home", web: "/dashboard",
            children: [
                .init(
                    "soptamp", title: "Soptamp",
                    children: [
                        .init("entire-ranking"),
                        .init(
                            "current-generation-ranking",
                            query: [
                                .init("currentGeneration", .integer, isRequired: true), .init("live", .boolean),
                            ]),
                    ])
            ]),
        .init(
            "resources",
            children: [
                .init("new"), .init(":id", children: [.init("detail", web: "/r/:id/all")]),
            ]),
    ])
    private static let router = DeepLinkRouter<Coordinator>(tree, [Home.self, Ranking.self, Resource.self])

    @MainActor
    private func shown(_ link: String) throws -> [String] {
        let coordinator = Coordinator()
        try Self.router.chain(link).open(in: coordinator)
        return coordinator.shown
    }

    @Test("a link is a chain of screens, parents first: the app's types, and pages for the rest")
    @MainActor
    func chain() throws {
        let expected = ["prepared", "Home", "/home/soptamp", "/home/soptamp/entire-ranking animated"]
        #expect(try shown("home/soptamp/entire-ranking") == expected)
        #expect(try shown("/home/soptamp/entire-ranking") == expected)
        #expect(try shown("home") == ["prepared", "Home animated"])
    }

    @Test("a query's value has the type that the screen asks for")
    func query() throws {
        let chain = try Self.router.chain("home/soptamp/current-generation-ranking?currentGeneration=33&live=true")
        let ranking = try #require(chain.destinations.last as? Ranking)
        #expect(ranking.generation == 33 && ranking.isLive == true && chain.problem == nil)
        #expect(chain.destinations.count == 3)
    }

    @Test("the values of a page's path and the query stand in its address, escaped again")
    @MainActor
    func pages() throws {
        #expect(try shown("resources/7/detail") == ["prepared", "/resources", "Resource 7", "/r/7/all animated"])
        let names = DeepLinkRouter<Coordinator>(.init([.init(":name", web: "/u/:name?tab=1", query: [.init("q")])]), [])
        let page = try #require(try names.chain("a%20b%3Fc?q=x%26y").destinations.last as? PageDestination<Coordinator>)
        #expect(page.page.address == "/u/a%20b%3Fc?tab=1&q=x%26y")
        let coordinator = Coordinator()
        try DeepLinkRouter<Coordinator>(.init([.init(":name", query: [.init("q")])]), []).chain("a%20b%3Fc?q=x%26y")
            .open(in: coordinator)
        #expect(coordinator.shown == ["prepared", "/a%20b%3Fc?q=x%26y animated"])
    }

    @Test("an unknown child leads to its deepest known parent, and the chain names the segment and the nearest ones")
    @MainActor
    func unknownChild() throws {
        #expect(try shown("home/soptamp/entire-rankin/7") == ["prepared", "Home", "/home/soptamp animated"])
        let problem = try #require(try Self.router.chain("home/soptamp/entire-rankin").problem)
        #expect(
            problem.reason
                == .unknownSegment(
                    "entire-rankin", below: "home/soptamp",
                    nearest: ["home/soptamp/entire-ranking", "home/soptamp", "home/soptamp/current-generation-ranking"]))
        #expect(problem.description.contains("entire-rankin"))
        #expect(problem.description.contains("home/soptamp/entire-ranking"))
    }

    @Test(
        "a screen that can't be built from the link leads to its parent",
        arguments: [
            "home/soptamp/current-generation-ranking", "home/soptamp/current-generation-ranking?currentGeneration=many",
            "home/soptamp/current-generation-ranking?currentGeneration=1&currentGeneration=2",
        ])
    @MainActor
    func missing(_ link: String) throws {
        #expect(try shown(link) == ["prepared", "Home", "/home/soptamp animated"])
        let problem = try #require(try Self.router.chain(link).problem)
        #expect(problem.description.contains("currentGeneration"))
    }

    @Test("a query key of a newer app is passed over, and named")
    func newerKey() throws {
        let chain = try Self.router.chain("home/soptamp/current-generation-ranking?currentGeneration=33&new=1")
        #expect((chain.destinations.last as? Ranking)?.generation == 33)
        #expect(chain.problem?.description.contains("new") == true)
    }

    @Test("a screen's own refusal leads to its parent; as a parent it is left out")
    func refused() throws {
        let chain = try Self.router.chain("resources/abc")
        #expect(chain.destinations.count == 1)
        #expect(chain.problem?.description.contains("TooLarge") == true)
        let below = try Self.router.chain("resources/abc/detail")
        #expect(below.destinations.count == 2 && below.problem == nil)
    }

    @Test("a push's link is found in its payload; a push without one leads nowhere")
    func payload() throws {
        let payload = PushPayload(userInfo: [
            "aps": ["alert": ["title": "T"], "badge": 3] as [String: Any], "category": "NOTICE",
            "deepLink": "home/soptamp/entire-ranking", "id": "n1", "badgeVersion": Int64(1_768_469_400_123),
        ])
        #expect(
            payload
                == PushPayload(
                    id: "n1", deepLink: "home/soptamp/entire-ranking", category: "NOTICE", badge: 3,
                    badgeVersion: 1_768_469_400_123))
        let chain = try DeepLinkRouter<Coordinator>(Self.tree, [Soptamp.self]).chain(payload)
        #expect(chain?.destinations.count == 3)
        #expect(chain?.destinations.compactMap { ($0 as? Soptamp)?.push } == [payload])
        #expect(try Self.router.chain(PushPayload(badge: 1, badgeVersion: 2)) == nil)
    }

    @Test("a query key of a type that this version doesn't know is text, and the tree is read")
    func newerType() throws {
        let json = #"{"deep_links":[{"path":"home","query":{"day":{"type":"date","required":true}},"children":[]}]}"#
        let tree = try #require(DeepLinkTree(json: try JSONValue(parsing: Array(json.utf8))))
        #expect(tree.nodes.first?.query == [.init("day", .string, isRequired: true)])
    }

    @Test("a type whose path the tree doesn't have is told, for a test of the app")
    func unreachable() {
        #expect(Self.router.unreachable == [])
        #expect(DeepLinkRouter<Coordinator>(DeepLinkTree(), [Home.self]).unreachable == ["home"])
    }

    // MARK: Property

    @Test(
        "every link of a random tree leads through its nodes with its values, and survives being written again",
        arguments: 1...40)
    func roundTrip(_ seed: UInt64) throws {
        var chance = SplitMix(state: seed)
        let tree = DeepLinkTree(randomLevel(3, &chance))
        let copy = try #require(DeepLinkTree(json: try JSONValue(parsing: tree.json.text)))
        #expect(copy == tree)
        let router = DeepLinkRouter<Coordinator>(copy, [])
        for path in links(of: tree.nodes, &chance) {
            let text = (Bool.random(using: &chance) ? "/" : "") + path.text
            let chain = try router.chain(text)
            #expect(chain.problem == nil, "\(text)")
            #expect(chain.destinations.count == path.segments.count, "\(text)")
            let last = try #require(chain.destinations.last as? PageDestination<Coordinator>)
            let address = try DeepLink(last.page.address)
            #expect(address.segments.map(\.text) == path.segments, "\(text)")
            #expect(address.query.map(\.value) == path.values, "\(text)")
            #expect(try router.chain(last.page.address).destinations.count == chain.destinations.count)
        }
    }

    @Test("100,000 random texts are chains or errors, and never trap")
    func noise() async {
        var chance = SplitMix(state: 11)
        let parts = Array("home/soptamp/entire-ranking?currentGeneration=33&live=true#%2f%2e:@\\ é\u{0}\u{7F}\u{202E}".utf8)
        var chains = 0
        for number in 0..<100_000 {
            // The other tests wait for the same few threads.
            if number.isMultiple(of: 1_000) { await Task.yield() }
            let length = Int.random(in: 0..<64, using: &chance)
            let isNear = Bool.random(using: &chance)
            let bytes = (0..<length).map { _ in
                isNear ? parts.randomElement(using: &chance) ?? 0 : UInt8.random(in: .min ... .max, using: &chance)
            }
            let text = (isNear ? "home/" : "") + String(decoding: bytes, as: UTF8.self)
            if let chain = try? Self.router.chain(text) { chains += chain.destinations.isEmpty ? 0 : 1 }
            if let url = URL(string: text) { _ = try? Self.router.chain(url, hosts: ["home"], schemes: ["home"]) }
        }
        #expect(chains > 1_000)
    }

    private struct Link {
        var segments: [String] = []
        var text = ""
        var values: [String] = []
    }

    private func randomLevel(_ depth: Int, _ chance: inout SplitMix) -> [DeepLinkTree.Node] {
        guard depth > 0 else { return [] }
        var names = Set((0..<Int.random(in: 1...4, using: &chance)).map { _ in randomText(&chance) })
        if Bool.random(using: &chance) { names.insert(":id\(depth)") }
        return names.sorted().map { name in
            let kinds = DeepLinkTree.QueryParameter.Kind.allCases
            let query = (0..<Int.random(in: 0...2, using: &chance)).map { index in
                DeepLinkTree.QueryParameter(
                    "k\(index)é", kinds.randomElement(using: &chance) ?? .string, isRequired: Bool.random(using: &chance))
            }
            return DeepLinkTree.Node(name, query: query, children: randomLevel(depth - 1, &chance))
        }
    }

    /// A link of every node.
    private func links(of nodes: [DeepLinkTree.Node], below: [String] = [], _ chance: inout SplitMix) -> [Link] {
        nodes.flatMap { node -> [Link] in
            // Not one that stands beside the parameter as a literal.
            let segments = below + [node.parameter == nil ? node.segment : "=" + randomText(&chance)]
            var link = Link(segments: segments, text: segments.map(PercentEncoding.encode).joined(separator: "/"))
            var items: [String] = []
            for parameter in node.query where parameter.isRequired || Bool.random(using: &chance) {
                let value =
                    switch parameter.kind {
                    case .string: randomText(&chance)
                    case .integer: String(Int64.random(in: .min ... .max, using: &chance))
                    case .boolean: String(Bool.random(using: &chance))
                    }
                link.values.append(value)
                items.append(PercentEncoding.encode(parameter.key) + "=" + PercentEncoding.encode(value))
            }
            if !items.isEmpty { link.text += "?" + items.joined(separator: "&") }
            return [link] + links(of: node.children, below: segments, &chance)
        }
    }

    /// Segments as people and machines make them: letters, what must be escaped, and other scripts. None begins with `:`.
    private func randomText(_ chance: inout SplitMix) -> String {
        let alphabet = Array("abcXYZ0189-_~ %?#&+=@é한🎉")
        let length = Int.random(in: 0...8, using: &chance)
        return "s" + String((0..<length).compactMap { _ in alphabet.randomElement(using: &chance) })
    }
}
