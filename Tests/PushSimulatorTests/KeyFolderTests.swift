import CampanileCore
import Foundation
import PushSimulator
import Testing

@Suite struct KeyFolderTests {
    private func withFolder(_ body: (String) async throws -> Void) async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await body(path)
    }

    @Test("a folder's keys and authority are made once and found again")
    func again() async throws {
        try await withFolder { path in
            let first = try KeyFolder(path: path)
            var options = SimulatorOptions(world: .hand(HandClock()))
            options.credentials = [first.credentials]
            options.authority = first.authority
            let simulator = try await PushSimulator.start(options)
            try first.write(for: simulator)
            #expect(simulator.caPEM == first.authority.certificatePEM)
            let uri = simulator.tokenURI
            await simulator.shutDown()
            let second = try KeyFolder(path: path)
            #expect(second.credentials.p8PEM == first.credentials.p8PEM)
            #expect(second.credentials.keyID == first.credentials.keyID)
            #expect(second.credentials.serviceAccountKeyPEM == first.credentials.serviceAccountKeyPEM)
            #expect(second.authority.certificatePEM == first.authority.certificatePEM)
            let account = try String(contentsOfFile: first.serviceAccountFile, encoding: .utf8)
            #expect(account.contains(uri.replacingOccurrences(of: "/", with: "\\/")) || account.contains(uri))
            let settings = try String(contentsOfFile: first.configurationFile, encoding: .utf8)
            for name in [first.keyFile, first.serviceAccountFile, first.caFile] {
                #expect(settings.contains(name))
                #expect(FileManager.default.fileExists(atPath: name))
            }
        }
    }

    @Test("nobody is answered by the page before the folder's files name the simulator")
    func pageLast() async throws {
        try await withFolder { path in
            let folder = try KeyFolder(path: path)
            var options = SimulatorOptions(world: .hand(HandClock()))
            options.credentials = [folder.credentials]
            options.pagePort = 0
            var waiting: PageStream?
            let simulator = try await PushSimulator.start(options) { simulator in
                let stream = try PageStream(port: try #require(simulator.pagePort))
                try stream.write("GET /counters HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                #expect(!stream.isReadable(milliseconds: 100))
                try folder.write(for: simulator)
                waiting = stream
            }
            let stream = try #require(waiting)
            #expect(try await blocking { try stream.read { _ in false } }.hasPrefix("HTTP/1.1 200"))
            #expect(try String(contentsOfFile: folder.configurationFile, encoding: .utf8).contains(simulator.apnsURL()))
            await simulator.shutDown()
        }
    }

    @Test("keys are readable for their owner only")
    func permissions() async throws {
        try await withFolder { path in
            let folder = try KeyFolder(path: path)
            for file in [folder.keyFile, folder.serviceAccountFile, "\(path)/simulator-ca.key"] {
                let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
                #expect(mode == 0o600, "\(file)")
            }
        }
    }

    @Test("a folder with a broken key is an error that names it, and nothing is overwritten")
    func broken() async throws {
        try await withFolder { path in
            let folder = try KeyFolder(path: path)
            try Data("no key".utf8).write(to: URL(filePath: folder.keyFile))
            let error = #expect(throws: OperatorError.self) { _ = try KeyFolder(path: path) }
            #expect(error?.description.contains(path) == true)
            #expect(try String(contentsOfFile: folder.keyFile, encoding: .utf8) == "no key")
        }
    }
}
