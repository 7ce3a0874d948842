import CampanileCore
import TestSupport
import Testing

/// Trees, links and bytes by chance, from seeds that a failure names.
@Suite struct DeepLinkPropertyTests {
    private struct Chance {
        var generator: SplitMix

        mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        mutating func element<Element>(_ elements: [Element]) -> Element { elements[number(0...elements.count - 1)] }
        mutating func isTrue(_ percent: Int = 50) -> Bool { number(1...100) <= percent }
    }

    private static let words = ["home", "Home", "orders", "a.b", "~x_y-z", "상품", "é", "e\u{301}", "new", "...", "42", "🎟️"]
    /// Values of parameters and queries: whatever must be escaped, and what is a word of the tree elsewhere.
    private static let values = ["42", "a b", "x?y#z", "1:2", "100%", "é", "-", "new!", "+", "a=b&c", "🎟️🎟️", "%2F"]

    private func nodes(_ chance: inout Chance, depth: Int) -> [DeepLinkTree.Node] {
        var words = Self.words
        var nodes = (0..<chance.number(depth == 0 ? 1...5 : 0...4)).map { _ in
            DeepLinkTree.Node(words.remove(at: chance.number(0...words.count - 1)))
        }
        if chance.isTrue(40) { nodes.append(DeepLinkTree.Node(":p\(depth)")) }
        for index in nodes.indices {
            nodes[index].query = (0..<chance.number(0...3)).map { number in
                .init("k\(number)é", chance.element(DeepLinkTree.QueryParameter.Kind.allCases), isRequired: chance.isTrue())
            }
            if depth < 4 { nodes[index].children = self.nodes(&chance, depth: depth + 1) }
        }
        return nodes
    }

    /// A text with what must be escaped so, and some of the rest.
    private func escaped(_ text: String, _ chance: inout Chance) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~".utf8)
        return text.unicodeScalars.map { scalar in
            let bytes = Array(String(scalar).utf8)
            let mayStay = bytes.count > 1 || plain.contains(bytes[0]) || scalar == "."
            if mayStay && chance.isTrue(80) { return String(scalar) }
            return bytes.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: chance.isTrue()) }.joined()
        }.joined()
    }

    private struct Expected {
        var segments: [String] = []
        var declared: [String] = []
        var query: [ExactText: DeepLinkTree.Value] = [:]
    }

    private func value(_ kind: DeepLinkTree.QueryParameter.Kind, _ chance: inout Chance) -> (String, DeepLinkTree.Value) {
        switch kind {
        case .string:
            let text = chance.isTrue(10) ? "" : chance.element(Self.values)
            return (text, .string(text))
        case .integer:
            let number = Int64.random(in: .min ... .max, using: &chance.generator)
            return (String(number), .integer(number))
        case .boolean:
            let isTrue = chance.isTrue()
            return (String(isTrue), .boolean(isTrue))
        }
    }

    /// Every link of a tree, in a form by chance, with what must come of it.
    private func links(_ nodes: [DeepLinkTree.Node], above: [(Expected, String)], _ chance: inout Chance) -> [(String, Expected)]
    {
        var links: [(String, Expected)] = []
        for node in nodes {
            var (expected, path) = above.last ?? (Expected(), chance.isTrue() ? "/" : "")
            var segment = node.segment
            if node.parameter != nil {
                let literals = Set(nodes.map { ExactText($0.segment) })
                segment = chance.element((Self.values + Self.words).filter { !literals.contains(ExactText($0)) })
            }
            expected.segments.append(segment)
            expected.declared.append(node.segment)
            path += (path.isEmpty || path == "/" ? "" : "/") + escaped(segment, &chance)
            var items: [String] = []
            var whole = expected
            for parameter in node.query where parameter.isRequired || chance.isTrue() {
                let (text, value) = value(parameter.kind, &chance)
                items.append("\(escaped(parameter.key, &chance))=\(escaped(text, &chance))")
                whole.query[ExactText(parameter.key)] = value
            }
            items.shuffle(using: &chance.generator)
            links.append(
                (path + (items.isEmpty ? "" : "?" + items.joined(separator: "&")) + (chance.isTrue(10) ? "#x/../y" : ""), whole))
            links += self.links(node.children, above: above + [(expected, path)], &chance)
        }
        return links
    }

    @Test("every link of a tree resolves to its own chain and values, also after a way through JSON", arguments: 0..<60)
    func roundTrip(seed: UInt64) throws {
        var chance = Chance(generator: SplitMix(state: seed))
        let tree = DeepLinkTree(nodes(&chance, depth: 0))
        let read = try #require(DeepLinkTree(json: tree.json))
        #expect(read == tree)
        for (text, expected) in links(tree.nodes, above: [], &chance) {
            for tree in [tree, read] {
                let match = try tree.resolve(DeepLink(text))
                #expect(match.steps.map { ExactText($0.segment) } == expected.segments.map { ExactText($0) }, "\(text)")
                #expect(match.steps.map { ExactText($0.node.segment) } == expected.declared.map { ExactText($0) }, "\(text)")
                #expect(match.query == expected.query, "\(text)")
            }
            // Control: the same link with an empty segment more.
            let end = text.firstIndex { $0 == "?" || $0 == "#" } ?? text.endIndex
            #expect(throws: DeepLinkTree.Mistake.self) { _ = try tree.resolve(DeepLink(text[..<end] + "/" + text[end...])) }
        }
    }

    @Test("random bytes are refused or resolved, and never trap", arguments: 0..<10)
    func bytes(seed: UInt64) throws {
        var chance = Chance(generator: SplitMix(state: seed))
        let tree = DeepLinkTree(nodes(&chance, depth: 0))
        let marks = Array("/?#&=%.:\\ ".utf8) + Array("%2F%2e%C3%A9home".utf8)
        var taken = 0
        for _ in 0..<10_000 {
            let bytes = (0..<chance.number(0...24)).map { _ in
                chance.isTrue(60) ? chance.element(marks) : UInt8(chance.number(0...255))
            }
            guard let link = try? DeepLink(String(decoding: bytes, as: UTF8.self)) else { continue }
            taken += 1
            _ = tree.knownPart(of: link)
            do throws(DeepLinkTree.Mistake) { _ = try tree.resolve(link) } catch { #expect(!error.sentences.isEmpty) }
        }
        #expect(taken > 100)
    }
}
