import Foundation
import SQLEngine
import Testing
import Yams

@testable import CampanileServer

/// The arrows of docs/architecture.md and the house's sizes. SwiftPM doesn't stop a target from importing what its
/// dependencies depend on, so this reads the imports.
@Suite struct HouseRulesTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    struct File {
        let path: String
        let lines: [String]
    }

    static func files(_ folder: String) throws -> [File] {
        let base = root.appending(path: folder)
        let names = try FileManager.default.subpathsOfDirectory(atPath: base.path())
        return try names.filter { $0.hasSuffix(".swift") }.sorted().map { name in
            let text = try String(contentsOf: base.appending(path: name), encoding: .utf8)
            return File(path: "\(folder)/\(name)", lines: text.components(separatedBy: "\n"))
        }
    }

    static func imports(_ file: File) -> [String] {
        file.lines.compactMap { line in
            let words = line.split(separator: " ")
            guard let index = words.firstIndex(of: "import"), index + 1 < words.count,
                words[..<index].allSatisfy({ ["public", "package"].contains($0) || $0.hasPrefix("@") })
            else { return nil }
            return String(words[index + 1])
        }
    }

    private static let system: Set<String> = ["Glibc", "Synchronization", "Dispatch"]
    /// Apple's, for the client's adapters: behind `canImport`, in one folder.
    private static let apple: Set<String> = ["UIKit", "UserNotifications"]
    /// All of Foundation is for apps alone: with its data of all languages the program would be twice as large.
    private static let foundation: Set<String> = ["FoundationEssentials"]

    /// The modules that each target may import, beside the system's.
    static let allowed: [String: Set<String>] = [
        "Sources/SystemSupport": [],
        "Sources/HTTPEngine": ["CMicroHTTPD", "SystemSupport"],
        "Sources/SQLEngine": ["CSQLite", "CPostgres", "SystemSupport"],
        "Sources/CampanileCore": foundation,
        "Sources/CampanileClient": foundation.union(["CampanileCore", "Foundation", "FoundationNetworking"]),
        "Sources/Push": foundation.union([
            "CampanileCore", "Crypto", "CryptoExtras", "Logging", "NIOCore", "NIOPosix", "NIOHTTP2", "NIOHPACK", "NIOSSL",
        ]),
        "Sources/PushSimulator": foundation.union([
            "CampanileCore", "Crypto", "CryptoExtras", "NIOCore", "NIOPosix", "NIOHTTP1", "NIOTLS", "NIOHTTP2",
            "NIOHPACK", "NIOSSL", "SwiftASN1", "X509", "CEmbedded",
        ]),
        "Sources/CampanileServer": foundation.union([
            "HTTPEngine", "SQLEngine", "SystemSupport", "CampanileCore", "Push", "CYAML", "Crypto", "CryptoExtras", "JWTKit",
            "Logging", "NIOCore", "NIOPosix", "NIOWebSocket", "CEmbedded",
        ]),
        "Sources/PhoneScript": foundation.union([
            "CampanileServer", "CampanileCore", "PushSimulator", "SystemSupport", "Logging",
        ]),
        "Sources/campanile": ["CampanileServer", "CampanileCore", "PushSimulator", "PhoneScript", "ArgumentParser", "Logging"],
    ]

    @Test("every target imports only what the architecture allows", arguments: allowed.keys.sorted())
    func arrows(_ folder: String) throws {
        let files = try Self.files(folder)
        #expect(!files.isEmpty)
        for file in files {
            var forbidden = Set(Self.imports(file)).subtracting(Self.allowed[folder] ?? []).subtracting(Self.system)
            if file.path.hasPrefix("Sources/CampanileClient/Apple/") { forbidden.subtract(Self.apple) }
            #expect(forbidden.isEmpty, "\(file.path) imports \(forbidden.sorted())")
        }
    }

    @Test("every target of the sources has its arrows here")
    func allTargets() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.root.appending(path: "Sources").path())
        let swift = folders.filter { !$0.hasPrefix("C") || $0.hasPrefix("Ca") }.map { "Sources/\($0)" }
        #expect(Set(swift) == Set(Self.allowed.keys))
    }

    @Test("the rule sees a forbidden import in every form")
    func control() {
        let file = File(
            path: "x",
            lines: [
                "import A", "package import B", "@testable import C", "// import D", "let x = \"import E\"",
                "@_exported public import F",
                "    import G",
            ])
        #expect(Self.imports(file) == ["A", "B", "C", "F", "G"])
    }

    /// Files that read or write on the calling thread, which then waits for the network if the database is PostgreSQL.
    static let blocking: [String: Set<String>] = [
        "in a command-line program, or before the server serves": [
            "DatabaseMove", "DatabaseRestore", "DatabaseStatistics", "Doctor", "Doctor+Send", "Doctor+Report", "FileImport",
            "BadgeAudit", "OperatorCommands",
            "MoveTarget", "PostgresHealth", "PostgresNodes",
        ],
        "on a thread of its own": [
            "DeliverySearch", "DryRun", "OwedAlerts", "DeviceRetention", "Housekeeping", "BadgeDrift", "InboxRetention",
        ],
        "of a file only": ["EarlierTimes"],
        "themselves": ["Store"],
    ]

    static func blocks(_ line: String) -> Bool {
        line.range(of: #"\b(read|snapshot|write|sizes)Blocking\b|\bsurvey\b *[({]"#, options: .regularExpression) != nil
    }

    @Test("nothing blocks its thread for the database but what may: no HTTP worker, stream, cable or task waits for a network")
    func blockingReads() throws {
        let files = try Self.files("Sources/CampanileServer").filter { $0.lines.contains(where: Self.blocks) }
        let found = Set(files.map { String($0.path.split(separator: "/").last?.dropLast(6) ?? "") })
        #expect(found == Self.blocking.values.reduce(into: []) { $0.formUnion($1) })
        #expect(Self.blocks("let a = try database.readBlocking { 1 }") && Self.blocks("database.survey(each: x) {"))
        #expect(!Self.blocks("let a = try await database.read { 1 }"))
    }

    @Test(
        "an app of iOS 16 can use all of the core and the client",
        arguments: ["Sources/CampanileCore", "Sources/CampanileClient"])
    func iOS16(_ folder: String) throws {
        for file in try Self.files(folder) {
            let newer = Set(Self.imports(file)).intersection(["Synchronization", "Glibc", "Dispatch", "Observation"])
            #expect(newer.isEmpty, "\(file.path) imports \(newer.sorted())")
            for (index, line) in file.lines.enumerated() where !line.trimmingCharacters(in: .whitespaces).hasPrefix("//") {
                #expect(Self.newerThanIOS16(line) == nil, "\(file.path):\(index + 1): \(line)")
            }
        }
    }

    /// Finds what of the language and its library needs a system newer than iOS 16, if the line has some. The compiler here can't
    /// tell: Linux has all of it.
    static func newerThanIOS16(_ line: String) -> String? {
        let names = [
            #"\b(Mutex|Atomic|InlineArray|Span|RawSpan|MutableSpan|UTF8Span|UInt128|Int128)\b"#, #"\bTask\.immediate\b"#,
            #"\bisolated deinit\b"#, #"\bany AsyncSequence<|\bsome AsyncSequence<"#, #"@Observable\b"#, #"\bnext\(isolation:"#,
            #"\bSequence\.Failure\b"#, #"\bTaskExecutor\b"#, #"\bwithDiscardingTaskGroup\b"#,
            #"#available|@available(?!\(iOSApplicationExtension, unavailable\))"#,
        ]
        return names.first { line.range(of: $0, options: .regularExpression) != nil }
    }

    @Test(
        "that rule sees what it is for",
        arguments: [
            "let state: Mutex<Int>", "Task.immediate { }", "var a: InlineArray<4, UInt8>", "any AsyncSequence<Int, any Error>",
            "isolated deinit {}", "let n: UInt128 = 0",
        ])
    func iOS16Control(_ line: String) {
        #expect(Self.newerThanIOS16(line) != nil)
        #expect(Self.newerThanIOS16("let lock = NSLock()") == nil)
        #expect(Self.newerThanIOS16("@available(iOSApplicationExtension, unavailable)") == nil)
    }

    /// Lines that use the app's UIApplication in a declaration that an extension of the app would get too. The compiler here
    /// can't tell: it knows no extensions.
    static func appOnly(_ file: File) -> [String] {
        var (isMarked, isNextMarked) = (false, false)
        return file.lines.filter { line in
            if let first = line.first, !first.isWhitespace, !"}/#".contains(first) {
                (isMarked, isNextMarked) = (isNextMarked, line == "@available(iOSApplicationExtension, unavailable)")
            }
            return line.contains("UIApplication.shared") && !isMarked
        }
    }

    @Test("a notification service extension can link the client: what only an app has is marked")
    func extensions() throws {
        for file in try Self.files("Sources/CampanileClient") { #expect(Self.appOnly(file).isEmpty, "\(file.path)") }
        let use = "    let app = UIApplication.shared"
        #expect(Self.appOnly(File(path: "x", lines: ["extension A {", use, "}"])) == [use])
        let marked = [
            "@available(iOSApplicationExtension, unavailable)", "extension A {", use, "}", "", "extension B {", use, "}",
        ]
        #expect(Self.appOnly(File(path: "x", lines: marked)).count == 1)
    }

    @Test("within the server, HTTP stands at the rim, libyaml with the configuration and NIO with the cable")
    func rooms() throws {
        for file in try Self.files("Sources/CampanileServer") {
            let imports = Set(Self.imports(file))
            if file.path.contains("/Store/") { #expect(!imports.contains("HTTPEngine"), "\(file.path)") }
            if file.path.contains("/Delivery/") { #expect(!imports.contains("HTTPEngine"), "\(file.path)") }
            if !file.path.contains("/Configuration/") { #expect(!imports.contains("CYAML"), "\(file.path)") }
            if !file.path.contains("/Auth/") { #expect(!imports.contains("JWTKit"), "\(file.path)") }
            if !file.path.contains("/Realtime/Cable/") {
                #expect(!imports.contains { $0.hasPrefix("NIO") }, "\(file.path)")
            } else {
                #expect(!imports.contains("HTTPEngine"), "\(file.path)")
            }
        }
    }

    /// Tests/TestSupport/ChildProgram.swift says why.
    @Test("no test starts a program with Foundation's Process")
    func programs() throws {
        let use = /\bProcess\(\)\./
        for file in try Self.files("Tests") {
            #expect(!file.lines.contains { $0.contains("= Process" + "()") || $0.firstMatch(of: use) != nil }, "\(file.path)")
        }
    }

    @Test("the only limit on a test's time is the one for a test that hangs")
    func hangLimit() throws {
        let limited = try Self.files("Tests").filter { $0.lines.contains { $0.contains("timeLimit(" + ".") } }
        #expect(limited.map(\.path) == ["Tests/TestSupport/HangLimit.swift"])
    }

    @Test("SQL text stands in Store and migrations only")
    func sql() throws {
        let statement = /"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN|COMMIT)\s/
        let block = /^\s*(SELECT|INSERT|UPDATE|DELETE FROM|CREATE)\s+[a-z_(]/
        for file in try Self.files("Sources/CampanileServer") + Self.files("Sources/campanile") + Self.files("Sources/Push")
        where !file.path.contains("/Store/") {
            for line in file.lines {
                #expect(line.firstMatch(of: statement) == nil && line.firstMatch(of: block) == nil, "\(file.path): \(line)")
            }
        }
    }

    @Test("files stay under 500 lines", arguments: ["Sources", "Tests"])
    func sizes(_ folder: String) throws {
        for file in try Self.files(folder) { #expect(file.lines.count <= 500, "\(file.path): \(file.lines.count)") }
    }

    @Test("no type is a Manager, a Helper or Utils, and nothing is left for later")
    func words() throws {
        let name = /\b(class|struct|enum|protocol|actor)\s+\w*(Manager|Helper|Utils)\b/
        let later = /\b(TODO|FIXME|XXX)\b/
        for file in try Self.files("Sources") {
            for line in file.lines {
                #expect(line.firstMatch(of: name) == nil && line.firstMatch(of: later) == nil, "\(file.path): \(line)")
            }
        }
    }

    @Test("force unwraps stand only in the layers that touch C")
    func forceUnwraps() throws {
        let unwrap = /[A-Za-z0-9_\])]!([.\s,)\]]|$)|\btry!|\bas!/
        for file in try Self.files("Sources") where !file.path.contains("Engine/") {
            for line in file.lines where !line.contains("//") {
                #expect(line.firstMatch(of: unwrap) == nil, "\(file.path): \(line)")
            }
        }
    }

    @Test("every @unchecked Sendable is proved in a comment")
    func unchecked() throws {
        for file in try Self.files("Sources") where file.lines.contains(where: { $0.contains("@unchecked Sendable") }) {
            #expect(
                file.lines.contains { $0.contains("//") && $0.contains("Sendable") },
                "\(file.path) doesn't say why it may be shared")
        }
    }

    @Test("every migration of SQLite's folder is embedded, in order")
    func migrations() throws {
        let folder = Self.root.appending(path: "migrations/sqlite")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted()
        #expect(files == Migrations.all.map { "\($0.name).sql" })
        #expect(Migrations.all.map(\.version) == Array(1...Int32(files.count)))
        for migration in Migrations.all {
            #expect(migration.sql == (try String(contentsOf: folder.appending(path: "\(migration.name).sql"), encoding: .utf8)))
        }
    }

    @Test("every migration of PostgreSQL's folder is embedded, in order")
    func postgresMigrations() throws {
        let folder = Self.root.appending(path: "migrations/postgres")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted()
        #expect(files == PostgresMigrations.all.map { "\($0.name).sql" })
        #expect(PostgresMigrations.all.map(\.version) == Array(1...Int32(files.count)))
        for migration in PostgresMigrations.all {
            #expect(migration.sql == (try String(contentsOf: folder.appending(path: "\(migration.name).sql"), encoding: .utf8)))
        }
    }
}
