import CampanileCore
package import HTTPEngine

/// One line a request, of the level `info`: method, route pattern, status, duration, the client's address, request id, and the id
/// of the client's trace if it named one. Never a path's values, a token or a body.
package struct AccessLog: Sendable {
    private let sink: LogSink
    private let world: World
    private let proxies: TrustedProxies

    init(sink: LogSink, world: World, proxies: TrustedProxies) {
        self.sink = sink
        self.proxies = proxies
        self.world = world
    }

    /// - Parameters:
    ///   - status: 0 when the client left before there was an answer.
    ///   - nanoseconds: from the request line to the end of the answer.
    package func write(_ request: Request, _ status: Int, _ nanoseconds: UInt64) {
        guard sink.takesRequests else { return }
        let time = world.now()
        let client = proxies.clientAddress(of: request)
        sink.append(isUrgent: false) { line in
            switch sink.format {
            case .text: AccessLog.text(request, client, status, nanoseconds, time, &line)
            case .json: AccessLog.json(request, client, status, nanoseconds, time, &line)
            }
        }
    }

    private static func text(
        _ request: Request, _ client: IPAddress?, _ status: Int, _ nanoseconds: UInt64, _ time: Timestamp, _ line: inout [UInt8]
    ) {
        append(time, &line)
        append(" ", &line)
        append(request.method, &line)
        append(" ", &line)
        append(request.routePattern ?? "(no route)", &line)
        append(" ", &line)
        append(UInt64(status), &line)
        append(" ", &line)
        appendMilliseconds(nanoseconds, &line)
        append(" ms ", &line)
        if let client { client.append(to: &line) } else { append("-", &line) }
        append(" ", &line)
        line += request.id.utf8
        request.appendTraceID(after: " trace ", to: &line)
    }

    private static func json(
        _ request: Request, _ client: IPAddress?, _ status: Int, _ nanoseconds: UInt64, _ time: Timestamp, _ line: inout [UInt8]
    ) {
        append("{\"time\":\"", &line)
        append(time, &line)
        append("\",\"level\":\"info\",\"message\":\"request\",\"method\":\"", &line)
        append(request.method, &line)
        append("\",\"route\":\"", &line)
        append(request.routePattern ?? "", &line)
        append("\",\"status\":", &line)
        append(UInt64(status), &line)
        append(",\"duration_ms\":", &line)
        appendMilliseconds(nanoseconds, &line)
        append(",\"client_address\":\"", &line)
        client?.append(to: &line)
        append("\",\"request_id\":\"", &line)
        line += request.id.utf8
        request.appendTraceID(after: "\",\"trace_id\":\"", to: &line)
        append("\"}", &line)
    }

    private static func append(_ literal: StaticString, _ line: inout [UInt8]) {
        line.append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// A method of the client's own invention is shown as `_OTHER`: it could hold anything.
    private static func append(_ method: Method, _ line: inout [UInt8]) {
        switch method {
        case .get: append("GET", &line)
        case .head: append("HEAD", &line)
        case .post: append("POST", &line)
        case .put: append("PUT", &line)
        case .patch: append("PATCH", &line)
        case .delete: append("DELETE", &line)
        case .options: append("OPTIONS", &line)
        case .other: append("_OTHER", &line)
        }
    }

    private static func append(_ time: Timestamp, _ line: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { text in
            time.write(to: text)
            line.append(contentsOf: text)
        }
    }

    private static func append(_ number: UInt64, _ line: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = number
            var start = 20
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            line.append(contentsOf: digits[start...])
        }
    }

    /// Milliseconds with three decimals.
    private static func appendMilliseconds(_ nanoseconds: UInt64, _ line: inout [UInt8]) {
        let microseconds = nanoseconds / 1_000
        append(microseconds / 1_000, &line)
        append(".", &line)
        let rest = microseconds % 1_000
        if rest < 100 { append("0", &line) }
        if rest < 10 { append("0", &line) }
        append(rest, &line)
    }
}
