import CampanileCore
import NIOCore
import NIOHTTP1

/// A complete HTTP/1.1 request.
struct PageRequest {
    let method: String
    /// Still percent-encoded.
    let path: String
    let query: [String: String]
    let body: [UInt8]
    /// True if a page of another origin sent it.
    let isForeign: Bool
}

enum PageAnswer {
    case bytes(status: Int, type: String, body: [UInt8])
    /// The live events: the connection stays open.
    case events
}

/// One HTTP/1.1 connection.
final class PageConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let server: PageServer
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []

    init(_ server: PageServer) { self.server = server }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
        case .body(let bytes):
            if body.count <= SimulatorLimits.controlBytes { body.append(contentsOf: bytes.readableBytesView) }
        case .end:
            guard let head else { return }
            self.head = nil
            answer(head, context: context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answer(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        let hosts = head.headers["host"]
        guard hosts.count == 1, server.hosts.contain(hosts[0]) else {
            return write(.problem(421, PageHosts.refusal), head: head, context: context)
        }
        guard body.count <= SimulatorLimits.controlBytes else {
            return write(.problem(413, "The body is too long."), head: head, context: context)
        }
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let request = PageRequest(
            method: head.method.rawValue, path: parts.first.map(String.init) ?? "/",
            query: PageConnection.query(parts.count > 1 ? parts[1] : ""), body: body,
            isForeign: PageConnection.isForeign(head.headers, host: hosts[0]))
        write(server.answer(request), head: head, context: context)
    }

    /// Browsers say so themselves (Fetch Metadata); older ones send `Origin` with every request that changes something.
    private static func isForeign(_ headers: HTTPHeaders, host: String) -> Bool {
        if let site = headers.first(name: "sec-fetch-site"), site != "same-origin", site != "none" { return true }
        guard let origin = headers.first(name: "origin") else { return false }
        return !["http://\(host)", "https://\(host)"].contains { $0.lowercased() == origin.lowercased() }
    }

    private static func query(_ text: Substring) -> [String: String] {
        var pairs: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { pairs[String(parts[0])] = String(parts[1]) }
        }
        return pairs
    }

    /// The calls that pages of other origins may read: the phones, for Campanile's console. Calls that change something
    /// stay closed.
    private static let readableElsewhere = ["/devices", "/events"]

    private func write(_ answer: PageAnswer, head: HTTPRequestHead, context: ChannelHandlerContext) {
        var headers = HTTPHeaders([("cache-control", "no-store"), ("x-content-type-options", "nosniff")])
        let path = head.uri.prefix { $0 != "?" }
        if head.method == .GET, PageConnection.readableElsewhere.contains(String(path)) {
            headers.add(name: "access-control-allow-origin", value: "*")
        }
        switch answer {
        case .events:
            headers.add(name: "content-type", value: "text/event-stream")
            // For the browser: the milliseconds after which to reconnect.
            let first = ByteBuffer(string: "retry: 1000\n\n")
            context.write(
                wrapOutboundOut(.head(HTTPResponseHead(version: head.version, status: .ok, headers: headers))),
                promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(first))), promise: nil)
            // Whoever has read these lines hears of everything that comes after.
            server.watch(context.channel)
            context.flush()
        case .bytes(let status, let type, let body):
            headers.add(name: "content-type", value: type)
            headers.add(name: "content-length", value: String(body.count))
            if type.hasPrefix("text/html") { headers.add(name: "content-security-policy", value: PageResources.policy) }
            let response = HTTPResponseHead(
                version: head.version, status: HTTPResponseStatus(statusCode: status), headers: headers)
            context.write(wrapOutboundOut(.head(response)), promise: nil)
            if head.method != .HEAD {
                context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
            }
            let written = context.eventLoop.makePromise(of: Void.self)
            if !head.isKeepAlive {
                let channel = context.channel
                written.futureResult.whenComplete { _ in channel.close(promise: nil) }
            }
            context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
        }
    }
}

extension PageAnswer {
    static func json(_ value: JSONValue) -> PageAnswer {
        .bytes(status: 200, type: "application/json", body: value.text + [10])
    }

    /// - Parameter sentence: for the sender.
    static func problem(_ status: Int, _ sentence: String) -> PageAnswer {
        .bytes(
            status: status, type: "application/json",
            body: JSONValue.object([.init("error", .string(sentence))]).text + [10])
    }
}
