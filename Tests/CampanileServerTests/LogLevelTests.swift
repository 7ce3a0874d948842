import CampanileCore
import Foundation
import Logging
import Testing

@testable import CampanileServer

@Suite struct LogLevelTests {
    @Test("lines below the level aren't written, neither a logger's nor a request's, and the level may change at any time")
    func levels() async throws {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/log")
        try Data().write(to: file)
        let handle = try FileHandle(forWritingTo: file)
        let sink = LogSink(descriptor: handle.fileDescriptor, format: .text)
        #expect(sink.level == .info)
        let logger = Logger(label: "test") { _ in SinkLogHandler(sink: sink, world: .hand(HandClock())) }
        let server = try await RunningServer(folder: folder, sink: sink) {
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
        try handle.close()
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.contains("/metrics") }
        let expected = ["High enough.", "Now.", "heard"]
        #expect(lines.count == expected.count, "\(lines)")
        for (line, text) in zip(lines, expected) { #expect(line.hasSuffix(text), "\(line)") }
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
