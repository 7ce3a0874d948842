import Foundation
import Testing

/// The server's folders are layers (docs/architecture.md): a folder uses the types of those below it, and of no other. So there is no
/// cycle among them.
@Suite struct LayerTests {
    /// From the bottom. The empty one is the root, which wires everything.
    static let layers = [
        "Domain", "Store", "JSON", "Configuration", "Auth", "Delivery", "Devices", "Inbox", "Realtime", "Logs", "API", "",
    ]

    struct Use: Hashable, CustomStringConvertible {
        let file: String
        let type: String
        let folder: String
        var description: String { "\(file) uses \(type) of \(folder.isEmpty ? "the root" : folder)" }
    }

    /// The text of each file by its path within the server, without comments and what stands in quotes.
    static func sources() throws -> [String: String] {
        let root = "Sources/CampanileServer"
        return Dictionary(
            uniqueKeysWithValues: try HouseRulesTests.files(root).map { file in
                (String(file.path.dropFirst(root.count + 1)), code(file.lines.joined(separator: "\n")))
            })
    }

    static func code(_ text: String) -> String {
        text.replacing(/"""(?s:.*?)"""/, with: "").replacing(/\/\*(?s:.*?)\*\//, with: "")
            .replacing(/\/\/[^\n]*/, with: "").replacing(/"(?:\\.|[^"\\\n])*"/, with: "")
    }

    static func folder(_ path: String) -> String {
        path.contains("/") ? String(path.prefix { $0 != "/" }) : ""
    }

    /// What files use of the folders above their own.
    static func upward(_ sources: [String: String], layers: [String]) -> [Use] {
        let declaration =
            /(?m)^([ \t]*)((?:[a-z@]\w*(?:\([^)\n]*\))?[ \t]+)*)(?:struct|class|enum|protocol|actor|typealias)[ \t]+([A-Z]\w*)/
        var home: [String: String] = [:]  // of a type that other files can name alone
        var own: [String: Set<String>] = [:]  // every type of a folder, also within others
        for (path, text) in sources {
            for match in text.matches(of: declaration) {
                let name = String(match.3)
                own[folder(path), default: []].insert(name)
                if match.1.isEmpty, !match.2.contains("private") { home[name] = folder(path) }
            }
        }
        func level(_ folder: String) -> Int { layers.firstIndex(of: folder) ?? layers.count }
        var found: Set<Use> = []
        for (path, text) in sources {
            // A name after a dot is a member's.
            for match in text.matches(of: /(?:^|[^.\w])([A-Z]\w*)/) {
                let name = String(match.1)
                guard let used = home[name], used != folder(path), own[folder(path)]?.contains(name) != true else { continue }
                if level(used) >= level(folder(path)) { found.insert(Use(file: path, type: name, folder: used)) }
            }
        }
        return found.sorted { ($0.file, $0.type) < ($1.file, $1.type) }
    }

    @Test("no folder of the server uses a type of one above it")
    func noneUpward() throws {
        let sources = try Self.sources()
        #expect(Set(sources.keys.map(Self.folder)) == Set(Self.layers))
        #expect(Self.upward(sources, layers: Self.layers) == [])
    }

    @Test("that test sees a type, wherever it stands, and neither a member nor a comment")
    func control() {
        let sources = [
            "Domain/Badge.swift": "struct Badge {\n    let board: Board? // Window\n}",
            "Inbox/Board.swift":
                "final class Board: Sendable {\n    struct Cell {}\n    let badge: Badge\n    let text = \"Window\"\n}",
            "API/Window.swift": "package struct Window { let board: Board }\nprivate struct Frame {}",
            "Other/Part.swift": "enum Part { case x(Settings.Window) }",
        ].mapValues(Self.code)
        #expect(
            Self.upward(sources, layers: ["Domain", "Inbox", "API", "Other"])
                == [Use(file: "Domain/Badge.swift", type: "Board", folder: "Inbox")])
        #expect(
            Self.upward(sources, layers: ["Inbox", "Domain", "API", "Other"])
                == [Use(file: "Inbox/Board.swift", type: "Badge", folder: "Domain")])
    }

    @Test("the nouns at the bottom know neither HTTP nor SQL nor a provider")
    func bottom() throws {
        for file in try HouseRulesTests.files("Sources/CampanileServer/Domain") {
            let imports = Set(HouseRulesTests.imports(file)).subtracting(["CampanileCore", "Synchronization"])
            #expect(imports.isEmpty, "\(file.path) imports \(imports.sorted())")
        }
    }
}
