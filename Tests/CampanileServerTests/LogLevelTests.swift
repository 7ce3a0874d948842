import CampanileCore
import Foundation
import Logging
import Testing

@testable import CampanileServer

@Suite struct LogLevelTests {
    /// The program's own sink, into a file.
    private struct SinkFile {
        let folder = TemporaryFolder()
        let sink: LogSink
        private let handle: FileHandle
        private let file: URL

        init() throws {
            file = URL(filePath: folder.path + "/log")
            try Data().write(to: file)
            handle = try FileHandle(forWritingTo: file)
            sink = LogSink(descriptor: handle.fileDescriptor, format: .text)
        }

        var logger: Logger { Logger(label: "test") { [sink] _ in SinkLogHandler(sink: sink, world: .hand(HandClock())) } }

        /// All that was written, once nothing else is.
        func lines() throws -> [String] {
            sink.flush()
            try handle.close()
            return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map(String.init)
        }
    }

    @Test("lines below the level aren't written, neither a logger's nor a request's, and the level may change at any time")
    func levels() async throws {
        let file = try SinkFile()
        #expect(file.sink.level == .info)
        let logger = file.logger
        let server = try await RunningServer(folder: file.folder, sink: file.sink) {
            $0.logLevel = .warning
            $0.metrics.token = Secret(MetricsTests.token)
        }
        try await stopping(server) { server in
            _ = try await server.client.get("/healthz", headers: ["X-Request-Id": "unheard"])
            // Its line would be written before it counts.
            let line = #"campanile_http_requests_total{route="/healthz",method="GET",status="200"} 1"#
            try await MetricsTests.wait(for: line, server)
            logger.notice("Too low.")
            logger.warning("High enough.")
            var configuration = server.app.configuration
            configuration.logLevel = .debug
            try server.app.reload(configuration)
            logger.debug("Now.")
            logger.trace("Not yet.")
            _ = try await server.client.get("/healthz", headers: ["X-Request-Id": "heard"])
        }
        let lines = try file.lines().filter { !$0.contains("/metrics") }
        let expected = ["High enough.", "Now.", "heard"]
        #expect(lines.count == expected.count, "\(lines)")
        for (line, text) in zip(lines, expected) { #expect(line.hasSuffix(text), "\(line)") }
    }

    @Test(
        "an operator's look at a user is written at every level, also where nothing else is",
        arguments: [.error, .critical] as [Logger.Level])
    func looks(_ level: Logger.Level) async throws {
        let file = try SinkFile()
        let server = try await RunningServer(folder: file.folder, logger: file.logger, sink: file.sink) { $0.logLevel = level }
        try await stopping(server) { server in
            let key = try server.operator("Nora")
            file.logger.notice("Too low.")
            #expect(try await server.client.get("/operate/users/alice", as: key).status == 404)
        }
        let lines = try file.lines()
        #expect(lines.count == 1, "\(lines)")
        for part in [" notice An operator looked at a user.", "key=Nora", "user=alice", "what=devices"] {
            #expect(lines.first?.contains(part) == true, "\(lines)")
        }
    }

    @Test("a configuration whose credentials are refused doesn't change the level, so that the refusal is written")
    func refused() async throws {
        let sink = LogSink(descriptor: -1, format: .text)
        try await stopping(try await RunningServer(sink: sink)) { server in
            var configuration = server.app.configuration
            configuration.logLevel = .critical
            configuration.apps["default"] = Configuration.App(
                apns: Configuration.APNs(keyFile: server.folder.path + "/none.p8", keyID: "K", teamID: "T", topic: "t", url: nil))
            #expect(throws: OperatorError.self) { try server.app.reload(configuration) }
            #expect(sink.level == .info)
            configuration.apps = [:]
            try server.app.reload(configuration)
            #expect(sink.level == .critical)
        }
    }

    @Test("a logger with a level of its own keeps it")
    func own() {
        let sink = LogSink(descriptor: -1, format: .text)
        var logger = Logger(label: "test") { _ in SinkLogHandler(sink: sink, world: .hand(HandClock())) }
        logger.logLevel = .error
        sink.level = .trace
        #expect(logger.logLevel == .error)
    }
}
