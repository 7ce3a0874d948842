import CampanileCore
import Foundation
import TestPrograms
import Testing

@testable import CampanileServer

/// The program as somebody starts it: arguments, environment and signals in, standard error and an exit status out.
@Suite("The program", .timeLimit(.minutes(2)))
struct ProgramTests {
    /// A command that goes on until it is told to stop, and what it has said so far.
    private final class Running {
        let program: ChildProgram
        private let errors: Int32
        private(set) var lines: [String] = []
        private var pending: [UInt8] = []

        init(_ arguments: [String], environment: [String: String] = [:]) throws {
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0 else { throw ChildProgram.NotStarted(error: errno) }
            errors = ends[0]
            defer { close(ends[1]) }
            program = try ChildProgram(ProgramTests.path, arguments, environment: environment, errors: ends[1])
        }

        deinit { close(errors) }

        /// Reads until a line holds a text. - Returns: that line; nil at the end of the program.
        func line(with text: String) -> String? {
            while let line = next() {
                if line.contains(text) { return line }
            }
            return nil
        }

        private func next() -> String? {
            while true {
                if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    lines.append(String(decoding: pending[..<end], as: UTF8.self))
                    pending.removeSubrange(...end)
                    return lines.last
                }
                var chunk = [UInt8](repeating: 0, count: 65_536)
                let count = read(errors, &chunk, chunk.count)
                guard count > 0 || (count < 0 && errno == EINTR) else { return nil }
                pending += chunk[..<max(0, count)]
            }
        }
    }

    /// Beside the tests' own bundle.
    private static let path = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "campanile").path()

    private let folder = TemporaryFolder()

    private func status(_ url: String) throws -> String {
        try ChildProgram.output(of: "/usr/bin/curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", url])
    }

    // MARK: Signals

    /// What tools for logs and profiles send, and what a limit of the shell sends when a file is full.
    static let stray = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPIPE, SIGXFSZ, SIGWINCH, SIGURG]

    @Test("signals that others send end neither server nor simulator; SIGTERM ends both in order", arguments: [
        ["serve"], ["simulator"],
    ])
    func signals(command: [String]) throws {
        let running = try Running(
            command == ["serve"]
                ? ["serve", "--port", "0", "--database", folder.database]
                : ["simulator", "--port", "0", "--page", "0", "--make-keys", folder.path + "/keys"])
        let isServer = command == ["serve"]
        let line = try #require(running.line(with: isServer ? "Campanile listens on" : "The phones:"))
        let address = try #require(line.split(separator: " ").last)
        for signal in Self.stray { kill(running.program.id, signal) }
        #expect(try status(isServer ? "\(address)/healthz" : String(address)) == "200")
        kill(running.program.id, SIGTERM)
        #expect(running.line(with: isServer ? "Stopping." : "has stopped") != nil)
        #expect(running.program.waitUntilEnded() == 0)
    }
}
