import Foundation
import Testing

@testable import CampanileServer

/// The files that pages load: the files of web/ and the phones, as they lie in the repository. A file that
/// Sources/CEmbedded/files.c or `Assets` lacks, and one that was changed and isn't embedded anew, is found here.
@Suite struct AssetTests {
    private static let web = HouseRulesTests.root.appending(path: "Sources/CampanileServer/web")
    private static let simulator = HouseRulesTests.root.appending(path: "Sources/PushSimulator")

    private static func served() throws -> [URL] {
        try FileManager.default.contentsOfDirectory(at: web, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension != "html" } + ["phones.css", "phones.js"].map { simulator.appending(path: $0) }
    }

    private static let types = [
        "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml",
    ]

    @Test("every file for pages is served as it lies in the repository, by its name and by that of its version")
    func files() async throws {
        let files = try Self.served()
        #expect(files.count > 10)
        try await withServer({ $0.console = true }) { server in
            for file in files {
                let name = file.lastPathComponent
                let address = try #require(try await server.client.get("/assets/\(name)").header("location"), "\(name)")
                let answer = try await server.client.get(address)
                let isSame = answer.body == Array(try Data(contentsOf: file))
                #expect(isSame, "\(name)")
                #expect(answer.header("content-type") == Self.types[file.pathExtension], "\(name)")
            }
        }
    }

    @Test("the console's page is web/console.html, with the addresses of the present versions")
    func console() async throws {
        try await withServer({ $0.console = true }) { server in
            let page = String(decoding: try await server.client.get("/console").body, as: UTF8.self)
            let file = try String(contentsOf: Self.web.appending(path: "console.html"), encoding: .utf8)
            let isSame = page.replacing(/"\/assets\/([\w-]+)-[0-9a-f]{12}\./, with: { "\"/assets/\($0.1)." }) == file
            #expect(isSame)
            for asset in page.matches(of: /"(\/assets\/[^"]*)"/) {
                #expect(try await server.client.get(String(asset.1)).status == 200, "\(asset.1)")
            }
        }
    }

    @Test("the reference at /docs is web/reference.html, byte by byte, and loads the present versions alone")
    func reference() async throws {
        try await withServer { server in
            let page = try await server.client.get("/docs").body
            let isSame = page == Array(try Data(contentsOf: Self.web.appending(path: "reference.html")))
            #expect(isSame)
            let assets = String(decoding: page, as: UTF8.self).matches(of: /"(\/assets\/[^"]*)"/)
            #expect(assets.count == 2)
            for asset in assets {
                #expect(try await server.client.get(String(asset.1)).status == 200, "\(asset.1)")
            }
        }
    }

    @Test("without the console the pieces for pages are there, and its own files aren't")
    func pieces() async throws {
        try await withServer { server in
            for (name, status) in [("campanile-badge.js", 302), ("console.js", 404), ("phones.js", 404)] {
                let answer = try await server.client.get("/assets/\(name)")
                #expect(answer.status == status, "\(name)")
            }
        }
    }
}
