import CampanileCore
import TestSupport
import Testing

/// The form of a deep link: docs/deep-links.md.
@Suite struct DeepLinkFormTests {
    @Test(
        "a relative link passes, with or without one leading slash, and stays as it was written",
        arguments: [
            ("home/soptamp/entire-ranking", ["home", "soptamp", "entire-ranking"]),
            ("/orders/42?tab=parcels", ["orders", "42"]), ("home", ["home"]), ("/", []), ("?a=b", []), ("#top", []),
            ("orders/42#a:b//c/../d", ["orders", "42"]), ("/a:b/c", ["a:b", "c"]), ("a/b:c", ["a", "b:c"]), ("a?b:c", ["a"]),
            ("/a//b/", ["a", "", "b", ""]), ("상품/%EC%83%81%ED%92%88", ["상품", "상품"]), ("a%20b/%2e%2e%2e", ["a b", "..."]),
            ("a\u{A0}b/\u{3000}", ["a\u{A0}b", "\u{3000}"]), ("a%3Ab/%3F%23", ["a:b", "?#"]), ("a/...", ["a", "..."]),
            (".a/b.", [".a", "b."]),
        ])
    func accepted(text: String, segments: [String]) throws {
        let link = try DeepLink(text)
        #expect(link.text == text)
        #expect(link.segments.map(\.text) == segments)
    }

    @Test(
        "what leads elsewhere or means two things is refused with a sentence that says what",
        arguments: [
            ("", "must not be empty."),
            ("https://example.com/a", "the text before its first : is a scheme"), ("javascript:alert(1)", "is a scheme"),
            ("a:b", "is a scheme"), (":", "is a scheme"), ("tel:1?a/b", "is a scheme"),
            ("a\\b", "must not contain \\"), ("/\\evil.example", "must not contain \\"), ("a?b=\\", "must not contain \\"),
            ("//evil.example/a", "must not begin with //"),
            (".", "must not have the segment “.”"), ("a/../b", "must not have the segment “..”"), ("/./a", "segment “.”"),
            ("a/..", "segment “..”"), ("a/%2e%2E/b", "segment “%2e%2E”"), (".%2e", "segment “.%2e”"), ("a/%2E", "segment “%2E”"),
            ("a%2Fb", "escaped / or \\ in its path, and has “a%2Fb”"), ("a/%5cb", "escaped / or \\"),
            ("a%", "broken escape in “a%”"), ("a/%4", "broken escape"), ("a/%zz", "broken escape"),
            ("a?b=%4z", "broken escape in “%4z”"),
            ("a%0Ab", "escaped control character"), ("a%00", "escaped control character"), ("a%7f", "escaped control"),
            ("a%C2%85", "escaped control"),
            ("a%C0%AF", "must be UTF-8 after decoding"), ("%ED%A0%80", "must be UTF-8"),
            ("a\nb", "must not contain control characters"), ("a\u{7F}", "control characters"), ("a\u{85}", "control characters"),
            ("a?b=\t", "control characters"), ("a b", "must not contain spaces: write %20"), ("a?b= c", "spaces"),
            (" a", "spaces"),
            ("/" + String(repeating: "x", count: 2_048), "must be at most 2048 bytes"),
        ])
    func refused(text: String, sentence: String) {
        #expect {
            _ = try DeepLink(text)
        } throws: { error in
            (error as? DeepLink.Mistake)?.sentence.contains(sentence) == true
        }
    }

    @Test("2,048 bytes are taken")
    func longest() throws {
        #expect(try DeepLink("/" + String(repeating: "x", count: 2_047)).segments.count == 1)
    }

    @Test("a query is taken apart at & and =, and decoded; a plus stays one")
    func query() throws {
        let items = try DeepLink("a?b=c&d&=e&f=g%3Dh=i&&j=%26+%0A#k=l").query
        #expect(items.map { "\($0.key.text)|\($0.value)" } == ["b|c", "d|", "|e", "f|g=h=i", "j|&+\n"])
    }

    @Test("links are the same if their bytes are")
    func equality() throws {
        #expect(try DeepLink("a/\u{E9}") != DeepLink("a/e\u{301}"))
        #expect(try DeepLink("a/b").hashValue == DeepLink("a/b").hashValue)
    }

    @Test("a sentence shows no control character of the link")
    func harmless() {
        #expect(
            throws: DeepLinkTree.Mistake.query([
                "has the query key “\\u{1b}[2J\\u{202e}”, which this screen doesn't take; it takes none."
            ])
        ) {
            _ = try DeepLinkTree([.init("a")]).resolve(DeepLink("a?%1B[2J%E2%80%AE=1"))
        }
    }
}

@Suite struct DeepLinkTreeTests {
    static let tree = DeepLinkTree([
        .init(
            "home", title: "Home",
            children: [
                .init(
                    "soptamp",
                    children: [
                        .init("entire-ranking"),
                        .init("current-generation-ranking", query: [.init("currentGeneration", .integer, isRequired: true)]),
                    ]),
                .init("Café"),
            ]),
        .init(
            "resources",
            children: [
                .init(":id", children: [.init("detail", query: [.init("tab"), .init("wide", .boolean)])]), .init("new"),
            ]),
    ])

    private func match(_ text: String) throws -> DeepLinkTree.Match { try Self.tree.resolve(DeepLink(text)) }

    private func sentences(_ text: String) throws -> [String] {
        let link = try DeepLink(text)
        do throws(DeepLinkTree.Mistake) {
            _ = try Self.tree.resolve(link)
            return []
        } catch {
            return error.sentences
        }
    }

    @Test("a link becomes the chain of its screens, parents first, with typed values")
    func chain() throws {
        let ranking = try match("home/soptamp/current-generation-ranking?currentGeneration=33")
        #expect(ranking.steps.map(\.segment) == ["home", "soptamp", "current-generation-ranking"])
        #expect(ranking.steps.first?.node.title == "Home")
        #expect(ranking.query == ["currentGeneration": .integer(33)])
        let detail = try match("/resources/a%20b/detail?wide=true&tab=")
        #expect(detail.parameters == ["id": "a b"])
        #expect(detail.query == ["wide": .boolean(true), "tab": .string("")])
        #expect(try match("home").steps.count == 1)
    }

    @Test("a literal segment goes before a parameter, and a parameter takes any other that isn't empty")
    func literals() throws {
        #expect(try match("resources/new").parameters == [:])
        #expect(try match("resources/neu").parameters == ["id": "neu"])
        #expect(try match("resources/:id").parameters == ["id": ":id"])
        // The literal is taken, and what would be below the parameter isn't looked at.
        #expect(try sentences("resources/new/detail").count == 1)
    }

    @Test(
        "segments are compared decoded, byte by byte and with case",
        arguments: [
            ("home/Caf%C3%A9", true), ("h%6Fme", true), ("Home", false), ("home/Cafe%CC%81", false), ("home/café", false),
        ])
    func comparison(text: String, isKnown: Bool) throws {
        #expect(try sentences(text).isEmpty == isKnown)
    }

    @Test(
        "an unknown segment is named, with the place and the nearest links",
        arguments: [
            ("home/soptmap", "names no screen: there is no “soptmap” below “home”. The nearest: home/soptamp, home, home/Café."),
            ("homes", "names no screen: there is no “homes”. The nearest: home, resources."),
            ("soptamp/entire-ranking", "names no screen: there is no “soptamp”. The nearest: home/soptamp, home, resources."),
            (
                "resources/7/details",
                "names no screen: there is no “details” below “resources/7”. The nearest: resources/:id/detail, resources/:id."
            ),
            (
                "home/",
                "names no screen: a segment of its path below “home” is empty. The nearest: home, home/soptamp, home/Café."
            ),
            (
                "resources/new/",
                "names no screen: a segment of its path below “resources/new” is empty. The nearest: resources/new."
            ),
            (
                "resources/7/?a=b",
                "names no screen: a segment of its path below “resources/7” is empty. The nearest: resources/:id, resources/:id/detail."
            ),
            ("/", "names no screen: its path is empty. The nearest: home, resources."),
            ("?a=b", "names no screen: its path is empty. The nearest: home, resources."),
            (
                "home//soptamp",
                "names no screen: a segment of its path below “home” is empty. The nearest: home, home/soptamp, home/Café."
            ),
            (
                "home/Cafe%CC%81",
                "names no screen: there is no “Cafe\u{301}” below “home”. The nearest: home/Café, home, home/soptamp. "
                    + "“Cafe\u{301}” only looks like “Café”: Cafe%CC%81 was given, and Caf%C3%A9 is declared."
            ),
        ])
    func unknown(text: String, sentence: String) throws {
        #expect(try sentences(text) == [sentence])
    }

    private static let ranking = "home/soptamp/current-generation-ranking"
    private static let generation = "“currentGeneration”, which must be a whole number of 64 bits."

    @Test(
        "every fault of a query is named",
        arguments: [
            ("\(ranking)", ["lacks the query key \(generation)"]),
            ("\(ranking)?currentGeneration=x", ["has “x” for the query key \(generation)"]),
            ("\(ranking)?currentGeneration=+1", ["has “+1” for the query key \(generation)"]),
            ("\(ranking)?currentGeneration=9223372036854775808", ["has “9223372036854775808” for the query key \(generation)"]),
            ("\(ranking)?currentGeneration=1&currentGeneration=1", ["has the query key “currentGeneration” twice."]),
            (
                "\(ranking)?currentGenerations=1",
                [
                    "has the query key “currentGenerations”, which this screen doesn't take; it takes currentGeneration.",
                    "lacks the query key \(generation)",
                ]
            ),
            ("home?a=1", ["has the query key “a”, which this screen doesn't take; it takes none."]),
            (
                "resources/1/detail?wide=TRUE&tap=1",
                [
                    "has “TRUE” for the query key “wide”, which must be true or false.",
                    "has the query key “tap”, which this screen doesn't take; it takes tab, wide.",
                ]
            ),
        ])
    func queries(text: String, sentences: [String]) throws {
        #expect(try self.sentences(text) == sentences)
    }

    @Test("of many faults of a query the first eight are told, and how many there are besides")
    func manyFaults() throws {
        let keys = (1...32).map { "key\($0)" }
        let tree = DeepLinkTree([.init("a", query: keys.map { .init($0) })])
        let link = try DeepLink("a?" + (1...300).map { "x\($0)=1" }.joined(separator: "&"))
        do throws(DeepLinkTree.Mistake) {
            _ = try tree.resolve(link)
            Issue.record("it was taken")
        } catch {
            #expect(error.sentences.count == 9)
            #expect(
                error.sentences.first == """
                    has the query key “x1”, which this screen doesn't take; it takes \
                    key1, key2, key3, key4, key5, key6, key7, key8 and 24 more.
                    """)
            #expect(error.sentences.last == "has 292 more faults in its query.")
        }
        let one = DeepLinkTree([.init("a", query: (1...10).map { .init("r\($0)", isRequired: true) })])
        #expect {
            _ = try one.resolve(DeepLink("a?r1=1"))
        } throws: { error in
            (error as? DeepLinkTree.Mistake)?.sentences.last == "has 1 more fault in its query."
        }
    }

    @Test(
        "a query whose escapes are no UTF-8 is well-formed; a screen takes no such key and no such value",
        arguments: [
            (
                "resources/1/detail?tab=%E9",
                ["has “\u{FFFD}” for the query key “tab”, which must be text, and isn't UTF-8 after decoding."]
            ),
            (
                "resources/1/detail?wide=%31%E9",
                [
                    "has “1\u{FFFD}” for the query key “wide”, which must be true or false, and isn't UTF-8 after decoding."
                ]
            ),
            ("resources/1/detail?%FF=1", ["has the query key “\u{FFFD}”, which this screen doesn't take; it takes tab, wide."]),
            (
                "resources/1/detail?%FF&%FE",
                [
                    "has the query key “\u{FFFD}”, which this screen doesn't take; it takes tab, wide.",
                    "has the query key “\u{FFFD}”, which this screen doesn't take; it takes tab, wide.",
                ]
            ),
        ])
    func bytesInQueries(text: String, sentences: [String]) throws {
        #expect(try DeepLink(text).text == text)
        #expect(try self.sentences(text) == sentences)
        #expect(throws: DeepLinkTree.Mistake.self) {
            _ = try DeepLinkTree([.init("a", query: [.init("\u{FFFD}")])]).resolve(DeepLink("a?%FF=1"))
        }
    }

    @Test("a key that only looks like a declared one is told apart")
    func lookalikeKey() throws {
        #expect(
            throws: DeepLinkTree.Mistake.query([
                "has the query key “cafe\u{301}”, which this screen doesn't take; it takes café. "
                    + "“cafe\u{301}” only looks like “café”: cafe%CC%81 was given, and caf%C3%A9 is declared."
            ])
        ) {
            _ = try DeepLinkTree([.init("a", query: [.init("caf\u{E9}")])]).resolve(DeepLink("a?cafe%CC%81=1"))
        }
    }

    @Test("integers are taken to the ends of 64 bits", arguments: ["-9223372036854775808", "9223372036854775807", "-0", "007"])
    func integers(text: String) throws {
        #expect(
            try match("\(Self.ranking)?currentGeneration=\(text)").query == [
                "currentGeneration": .integer(try #require(Int64(text)))
            ])
    }

    @Test("an app that is older than a link finds the deepest screen that it has")
    func knownPart() throws {
        let part = Self.tree.knownPart(of: try DeepLink("resources/7/map/wide?x=1"))
        #expect(part.steps.map(\.segment) == ["resources", "7"])
        #expect(part.parameters == ["id": "7"])
        #expect(Self.tree.knownPart(of: try DeepLink("nowhere")).steps.isEmpty)
    }

    @Test("the answer of GET /deep_links makes the same tree again")
    func json() throws {
        var tree = Self.tree.nodes
        tree[0].children[0].minimumVersion = .init(ios: AppVersion("2.1.0"), otherwise: .noPush)
        tree[0].web = "/dashboard"
        let written = DeepLinkTree(tree)
        #expect(DeepLinkTree(json: try JSONValue(parsing: written.json.text)) == written)
        #expect(DeepLinkTree(json: .object([])) == nil)
        #expect(DeepLinkTree(json: .object([.init("deep_links", .array([.object([])]))])) == nil)
    }

    @Test("the requirement of the deepest screen that an app lacks is the one that counts")
    func requirement() throws {
        let child = DeepLinkTree.Node("b", minimumVersion: .init(ios: AppVersion("2"), otherwise: .noPush))
        let tree = DeepLinkTree([
            .init("a", minimumVersion: .init(ios: AppVersion("1"), android: AppVersion("3")), children: [child, .init("c")])
        ])
        func otherwise(_ link: String, _ version: String?, _ platform: DevicePlatform = .ios) throws -> DeepLinkTree
            .MinimumVersion.Otherwise?
        {
            try tree.resolve(DeepLink(link)).unmetRequirement(of: version, on: platform)?.otherwise
        }
        #expect(try otherwise("a/b", "1.9") == .noPush)
        #expect(try otherwise("a/b", "2.0") == nil)
        #expect(try otherwise("a/c", "0.9") == .withoutLink)
        #expect(try otherwise("a/c", "1") == nil)
        #expect(try otherwise("a/b", "2.9.9", .android) == .withoutLink)
        #expect(try otherwise("a/b", nil) == .noPush)
        #expect(try otherwise("a/b", "2.0-beta") == .noPush)
    }
}

@Suite struct AppVersionTests {
    @Test(
        "versions are compared number by number, and missing numbers are 0",
        arguments: [
            ("2.1.0", "2.1", 0), ("2", "2.0.0.0", 0), ("2.10", "2.9", 1), ("1.99.99", "2", -1), ("0", "0.0.1", -1),
            ("010", "10", 0),
            ("18446744073709551615", "1", 1),
        ])
    func order(left: String, right: String, order: Int) throws {
        let (left, right) = (try #require(AppVersion(left)), try #require(AppVersion(right)))
        #expect((left < right ? -1 : left > right ? 1 : 0) == order)
        #expect((left == right) == (order == 0))
        if order == 0 { #expect(left.hashValue == right.hashValue) }
    }

    @Test(
        "what is no row of numbers is no version",
        arguments: [
            "", ".", "1.", ".1", "1..2", "v1", "1.0-beta", "1 .0", "+1", "-1", "1,0", "18446744073709551616", "１",
        ])
    func unreadable(text: String) { #expect(AppVersion(text) == nil) }
}

@Suite struct NearestNamesTests {
    /// Letters that count how often one is looked at.
    private struct CountedLetters: RandomAccessCollection {
        final class Looks { var count = 0 }

        let letters: [Unicode.Scalar]
        let looks = Looks()
        var startIndex: Int { 0 }
        var endIndex: Int { letters.count }

        subscript(index: Int) -> Unicode.Scalar {
            looks.count += 1
            return letters[index]
        }
    }

    /// The definition of optimal string alignment, cell by cell.
    private func plainDistance(_ left: [Unicode.Scalar], _ right: [Unicode.Scalar]) -> Int {
        var cells = (0...left.count).map { row in (0...right.count).map { row == 0 ? $0 : $0 == 0 ? row : 0 } }
        for row in left.indices {
            for column in right.indices {
                var least = cells[row][column] + (left[row] == right[column] ? 0 : 1)
                least = min(least, cells[row][column + 1] + 1, cells[row + 1][column] + 1)
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    least = min(least, cells[row - 1][column - 1] + 1)
                }
                cells[row + 1][column + 1] = least
            }
        }
        return cells[left.count][right.count]
    }

    @Test("the distance of two names is what it is by definition, up to a limit")
    func distances() {
        var random = SplitMix(state: 7)
        for round in 0..<1_000 {
            let left = (0..<Int.random(in: 0...9, using: &random)).map { _ in
                "abc".unicodeScalars.randomElement(using: &random) ?? "a"
            }
            var right = left
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let place = Int.random(in: 0...right.count, using: &random)
                switch Int.random(in: 0...3, using: &random) {
                case 0: right.insert("b", at: place)
                case 1 where place < right.count: right.remove(at: place)
                case 2 where place + 1 < right.count: right.swapAt(place, place + 1)
                default: if place < right.count { right[place] = "c" }
                }
            }
            let distance = plainDistance(left, right)
            let found = (-1...4).map { editDistance(left, right, atMost: $0) }
            #expect(found == (-1...4).map { distance <= $0 ? distance : nil }, "\(round): \(left) \(right)")
        }
    }

    @Test("long names are compared only where they can be alike")
    func cost() {
        let same = Array(String(repeating: "k", count: 124).unicodeScalars)
        let (left, right) = (
            CountedLetters(letters: same + "wxyz".unicodeScalars), CountedLetters(letters: same + "abcd".unicodeScalars)
        )
        #expect(editDistance(left, right, atMost: 3) == nil)
        #expect(left.looks.count + right.looks.count <= 128 * 32)
    }
}
