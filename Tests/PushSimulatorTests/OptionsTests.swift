import PushSimulator
import Testing

@Suite struct OptionsTests {
    @Test("a port that is none is refused by its flag's name, and nothing listens", arguments: [-1, 65_536, 70_000])
    func ports(_ port: Int) async throws {
        let changes: [(String, (inout SimulatorOptions) -> Void)] = [
            ("--port", { $0.port = port }), ("--page", { $0.pagePort = port }), ("--sandbox-port", { $0.sandboxPort = port }),
        ]
        for (flag, change) in changes {
            let error = await #expect(throws: (any Error).self) { try await Fixture.start(change) }
            #expect(error.map { "\($0)" } == "\(flag) must be a whole number from 0 to 65535, and is \(port).")
        }
    }
}
