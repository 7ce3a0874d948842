import Foundation
@testable import HTTPEngine
import Testing

@Suite("The quirks of libmicrohttpd 0.9.75")
struct MicroHTTPD075Tests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private static func files(_ folder: String) throws -> [(path: String, text: String)] {
        let base = root.appending(path: folder)
        let names = try FileManager.default.subpathsOfDirectory(atPath: base.path()).sorted()
        return try names.filter { name in [".swift", ".c", ".h"].contains(where: name.hasSuffix) }.map { name in
            (name, try String(contentsOf: base.appending(path: name), encoding: .utf8))
        }
    }

    @Test("The library that is loaded here is the one that was tested")
    func loaded() {
        #expect(HTTPServer.untestedLibrary == nil)
    }

    @Test(
        "Addresses tell something of the tested version only, and of every 0.9 its parser is known",
        arguments: [
            ("0.9.75", true, true), ("0.9.7", false, true), ("0.9.77", false, true), ("1.0.1", false, false), ("", false, false),
        ])
    func versions(version: String, isTested: Bool, hasOldParser: Bool) {
        #expect(MicroHTTPD075.isTested(version) == isTested)
        #expect(MicroHTTPD075.hasOldParser(version) == hasOldParser)
    }

    @Test("Each says what is done instead, what that costs, which version ends it, and a test that there is")
    func page() throws {
        let page = try #require(try Self.files("Sources/HTTPEngine").first { $0.path.hasSuffix("MicroHTTPD075.swift") }).text
        let quirks = page.components(separatedBy: "/// **").dropFirst()
        #expect(quirks.count == 13)
        let tests = try Self.files("Tests/HTTPEngineTests")
        for quirk in quirks {
            let name = quirk.prefix { $0 != "*" }
            for field in ["Instead", "Cost", "Test", "Ends"] {
                #expect(quirk.components(separatedBy: "/// - \(field): ").count == 2, "\(field) of “\(name)”")
            }
            let named = quirk.matches(of: /(\w+Tests)\.(\w+)/)
            #expect(!named.isEmpty, "no test of “\(name)”")
            for test in named {
                let isThere = tests.contains { $0.text.contains("struct \(test.1) ") && $0.text.contains("func \(test.2)(") }
                #expect(isThere, "“\(name)” names \(test.0)")
            }
        }
    }

    @Test(
        "No other file of the engine tells of a version of the library",
        arguments: ["Sources/HTTPEngine", "Sources/CMicroHTTPD"])
    func nowhereElse(folder: String) throws {
        let others = try Self.files(folder).filter { !$0.path.hasSuffix("MicroHTTPD075.swift") }
        #expect(!others.isEmpty)
        for file in others { #expect(!file.text.contains(/\b0\.9\.\d/), "\(file.path)") }
    }
}
