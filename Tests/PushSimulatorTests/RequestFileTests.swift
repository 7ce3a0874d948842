import CampanileCore
import Foundation
import PushSimulator
import Synchronization
import Testing

@Suite struct RequestFileTests {
    /// The lines that the body leaves in a file.
    private func lines(
        kept: Int, _ body: @escaping (Fixture) async throws -> Void,
        again: @escaping (Fixture) async throws -> Void = { _ in }
    ) async throws -> [JSONValue] {
        let path = FileManager.default.temporaryDirectory.appending(path: "requests-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: path) }
        for run in [body, again] {
            let file = try RequestFile(path: path) { Issue.record("\($0)") }
            try await withSimulator(
                {
                    $0.requestsKept = kept
                    $0.requestFile = file
                }, run)
        }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.isEmpty || text.hasSuffix("\n"))
        return try text.split(separator: "\n").map { try JSONValue(parsing: Array($0.utf8)) }
    }

    @Test("every request stands in the file, in its order, however few the simulator keeps")
    func all() async throws {
        let lines = try await lines(kept: 3) { fixture in
            let sender = try await fixture.connect()
            for badge in 1...50 {
                _ = try await sender.answer(fixture.push(payload: #"{"aps":{"badge":\#(badge)}}"#))
            }
            #expect(fixture.simulator.requests().count == 3)
        }
        #expect(lines.map { $0["payload"] } == (1...50).map { .string(#"{"aps":{"badge":\#($0)}}"#) })
        #expect(lines.allSatisfy { $0["status"] == 200 && $0["service"] == "apns" })
    }

    @Test("a line stands there when its answer arrives, and says what GET /requests says: no credential")
    func line() async throws {
        let lines = try await lines(kept: 10) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            _ = try await sender.answer(fixture.tokenRequest(fixture.assertion()))
        }
        #expect(lines.map { $0["service"] } == ["apns", "token"])
        #expect(lines.map { $0["payload"] == "" } == [false, true])
        let text = lines.map { String(decoding: $0.text, as: UTF8.self) }.joined()
        #expect(text.contains(#"["authorization","…"]"#) && !text.contains("bearer"))
    }

    @Test("a request that got no answer on command stands there too, and a second run goes on behind the first")
    func faults() async throws {
        let lines = try await lines(kept: 10) { fixture in
            fixture.simulator.setFaults([FaultRule(.resetStream(code: 2, isApplied: true))])
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
        } again: { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
        }
        #expect(lines.map { $0["status"] } == [.null, 200])
        #expect(lines.map { $0["fault"] } == ["reset_stream", .null])
    }

    @Test("a file that takes nothing is told in a sentence")
    func full() async throws {
        let told = Mutex<[String]>([])
        let file = try RequestFile(path: "/dev/full") { sentence in told.withLock { $0.append(sentence) } }
        try await withSimulator({ $0.requestFile = file }) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
        }
        #expect(told.withLock { $0 } == ["/dev/full can't be written: No space left on device."])
    }

    @Test("a file that can't be opened is an error that names it, and fast mode takes none")
    func mistakes() async throws {
        let error = #expect(throws: OperatorError.self) { _ = try RequestFile(path: "/nowhere/requests") { _ in } }
        #expect(error?.description == "/nowhere/requests can't be written: No such file or directory.")
        let file = try RequestFile(path: "/dev/null") { _ in }
        let fast = await #expect(throws: OperatorError.self) {
            try await Fixture.start {
                $0.isFast = true
                $0.requestFile = file
            }
        }
        #expect(fast?.description.contains("fast") == true, "\(String(describing: fast))")
    }
}
