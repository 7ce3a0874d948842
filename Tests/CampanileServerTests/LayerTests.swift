import Foundation
import Testing

/// The server's folders are layers (docs/architecture.md): a folder uses what those below it declare, types and the members that they
/// add to others' types, and nothing of those above it. So there is no cycle among them. Members are told by their names alone:
/// added initialisers, and members added to other modules' types, aren't seen.
@Suite struct LayerTests {
    /// From the bottom. The last one wires everything.
    static let layers = [
        "Domain", "Store", "JSON", "Configuration", "Auth", "Delivery", "Cluster", "Devices", "Inbox", "Realtime", "Metrics",
        "Logs", "API",
        "Import", "Operator", "Program",
    ]

    struct Use: Hashable, CustomStringConvertible {
        let file: String
        let name: String
        let folder: String
        var description: String { "\(file) uses \(name) of \(folder.isEmpty ? "the root" : folder)" }
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

    /// Where types are declared.
    struct Types {
        /// The folder of a type that other files can name alone.
        var home: [String: String] = [:]
        /// Every type of a folder, also within others.
        var own: [String: Set<String>] = [:]

        init(_ sources: [String: String]) {
            let declaration =
                /(?m)^([ \t]*)((?:[a-z@]\w*(?:\([^)\n]*\))?[ \t]+)*)(?:struct|class|enum|protocol|actor|typealias)[ \t]+([A-Z]\w*)/
            for (path, text) in sources {
                for match in text.matches(of: declaration) {
                    let name = String(match.3)
                    own[folder(path), default: []].insert(name)
                    if match.1.isEmpty, !match.2.contains("private") { home[name] = folder(path) }
                }
            }
        }

        /// Types of the whole server that a folder can't be seen to use, because it has one of the same name within another.
        var hidden: Set<String> {
            Set(own.flatMap { folder, names in names.filter { home[$0] != nil && home[$0] != folder } })
        }
    }

    /// Returns what files use of the folders above their own.
    static func upward(_ sources: [String: String], layers: [String]) -> [Use] {
        func level(_ folder: String) -> Int { layers.firstIndex(of: folder) ?? layers.count }
        let types = Types(sources)
        var found: Set<Use> = []
        for (path, text) in sources {
            // A name after a dot is a member's.
            for match in text.matches(of: /(?:^|[^.\w])([A-Z]\w*)/) {
                let name = String(match.1)
                guard let used = types.home[name], used != folder(path), types.own[folder(path)]?.contains(name) != true
                else { continue }
                if level(used) >= level(folder(path)) { found.insert(Use(file: path, name: name, folder: used)) }
            }
        }
        found.formUnion(upwardMembers(sources, types, level))
        return found.sorted { ($0.file, $0.name) < ($1.file, $1.name) }
    }

    /// Uses of members that a folder above adds to a type of another, and that nothing at the user's height or below is called.
    private static func upwardMembers(_ sources: [String: String], _ types: Types, _ level: (String) -> Int) -> Set<Use> {
        let added = /(?m)^extension ([A-Z]\w*)[^\n]*\{\n((?s:.*?))^\}/
        let member = /(?m)^    (?:(?!private|fileprivate)[a-z@]\w* )*(?:func|var|let) (\w+)/
        var folders: [String: Set<String>] = [:]  // that add a member, by its name
        for (path, text) in sources {
            for match in text.matches(of: added) where types.home[String(match.1)].map({ $0 != folder(path) }) ?? false {
                for member in match.2.matches(of: member) { folders[String(member.1), default: []].insert(folder(path)) }
            }
        }
        // Whatever else has the name: members, cases, parameters and labels.
        var lowest: [String: Int] = [:]
        for (path, text) in sources {
            for match in text.matches(of: /(?:func|var|let|case) (\w+)|[(,] ?(\w+)(?![\w(.])|(\w+):/) {
                let name = String(match.1 ?? match.2 ?? match.3 ?? "")
                lowest[name] = min(lowest[name] ?? .max, level(folder(path)))
            }
        }
        var found: Set<Use> = []
        for (path, text) in sources {
            for match in text.matches(of: /(?:^|[^\w])([a-z]\w*)/) {
                let (name, own) = (String(match.1), level(folder(path)))
                guard let adding = folders[name], lowest[name].map({ $0 > own }) ?? true else { continue }
                if let nearest = adding.min(by: { level($0) < level($1) }), level(nearest) > own {
                    found.insert(Use(file: path, name: name, folder: nearest))
                }
            }
        }
        return found
    }

    @Test("no folder of the server uses a type of one above it, or a member that one above it adds")
    func noneUpward() throws {
        let sources = try Self.sources()
        #expect(Set(sources.keys.map(Self.folder)) == Set(Self.layers))
        #expect(Self.upward(sources, layers: Self.layers) == [])
        // A folder that has a type of its own called so. What they may hide was looked at: nothing.
        #expect(Types(sources).hidden == ["App", "Cable"])
    }

    @Test("that test sees a type, wherever it stands, and an added member, and neither another's member nor a comment")
    func control() {
        let sources = [
            "Domain/Badge.swift": "struct Badge {\n    let board: Board? // Window\n}",
            "Inbox/Board.swift":
                "final class Board: Sendable {\n    struct Cell {}\n    let badge: Badge\n    let text = \"Window\"\n}",
            "API/Window.swift": "package struct Window { let board: Board }\nprivate struct Frame {}",
            "Other/Part.swift": "enum Part { case x(Settings.Window) }",
            "API/Badge+JSON.swift":
                "extension Badge {\n    static let mark = 1\n    func json(_ x: Int) {}\n    private var own = 2\n}",
            "Inbox/List.swift": "func list(_ badge: Badge, own: Int) { badge.json(Badge.mark); own }",
        ].mapValues(Self.code)
        #expect(
            Self.upward(sources, layers: ["Domain", "Inbox", "API", "Other"])
                == [
                    Use(file: "Domain/Badge.swift", name: "Board", folder: "Inbox"),
                    Use(file: "Inbox/List.swift", name: "json", folder: "API"),
                    Use(file: "Inbox/List.swift", name: "mark", folder: "API"),
                ])
        #expect(
            Self.upward(sources, layers: ["Inbox", "Domain", "API", "Other"]).filter { $0.folder != "API" }
                == [
                    Use(file: "Inbox/Board.swift", name: "Badge", folder: "Domain"),
                    Use(file: "Inbox/List.swift", name: "Badge", folder: "Domain"),
                ])
    }

    @Test("the nouns at the bottom know neither HTTP nor SQL nor a provider")
    func bottom() throws {
        for file in try HouseRulesTests.files("Sources/CampanileServer/Domain") {
            let imports = Set(HouseRulesTests.imports(file)).subtracting(["CampanileCore", "Synchronization"])
            #expect(imports.isEmpty, "\(file.path) imports \(imports.sorted())")
        }
    }
}
