import Glibc
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// A request as the server saw it.
struct ServedRequest: Sendable {
    /// Counted from 0, over all connections.
    let number: Int
    let connection: Int
    let streamID: Int
    let headers: HPACKHeaders
    let body: [UInt8]

    func first(_ name: String) -> String? { headers.first(name: name) }
    var path: String { first(":path") ?? "" }
    var token: String { String(first("authorization")?.split(separator: " ").last ?? "") }
}

/// The server's act when a request is complete.
enum Reaction: Sendable {
    case answer(Int, headers: [(String, String)] = [], String = "")
    /// The first part of an answer, without its end.
    case begin(Int, String)
    case more(String, end: Bool)
    /// Nothing: the stream stays open.
    case silence
    case refuse
    case reset(HTTP2ErrorCode)
    case goAway(last: Int, String = "")
    case maxStreams(Int)
    case close
    /// Throws away what comes from now on, and keeps the connection.
    case mute
}

/// A real HTTP/2 server over TLS that does what a script says, frame by frame, and writes down what it saw.
final class ScriptedServer: Sendable {
    struct Log: Sendable {
        var requests: [ServedRequest] = []
        var connections = 0
        /// Of these, those that are over.
        var ends = 0
        /// Streams opened above the limit that the client had acknowledged.
        var violations = 0
        var pings = 0
        var goodbyes = 0
        var windowUpdates = 0
        var mostOpen = 0
    }

    typealias Script = @Sendable (ServedRequest) -> [Reaction]

    let port: Int
    private let channel: any Channel
    private let shared: Shared

    /// The state that connections and tests share.
    final class Shared: Sendable {
        struct State: Sendable {
            var channels: [Int: any Channel] = [:]
            /// Bound and not listening.
            var heldSocket: Int32?
        }

        let log = Watched(Log())
        let state = Mutex(State())
        let script: Script

        init(_ script: @escaping Script) { self.script = script }
    }

    /// - Parameters:
    ///   - maxStreams: announced in the first SETTINGS; nil announces nothing.
    ///   - alpn: what the server offers.
    static func start(
        host: String = "127.0.0.1", authority: TestAuthority = .trusted, maxStreams: Int? = 100,
        initialWindow: Int? = nil, alpn: [String] = ["h2"], _ script: @escaping Script
    ) async throws -> ScriptedServer {
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: [.certificate(authority.leaf)], privateKey: .privateKey(authority.leafKey))
        tls.applicationProtocols = alpn
        let context = try NIOSSLContext(configuration: tls)
        let shared = Shared(script)
        var settings: HTTP2Settings = []
        if let maxStreams { settings.append(HTTP2Setting(parameter: .maxConcurrentStreams, value: maxStreams)) }
        if let initialWindow { settings.append(HTTP2Setting(parameter: .initialWindowSize, value: initialWindow)) }
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { [settings] channel in
                channel.eventLoop.makeCompletedFuture {
                    var connection = NIOHTTP2Handler.ConnectionConfiguration()
                    connection.initialSettings = settings
                    let sync = channel.pipeline.syncOperations
                    try sync.addHandler(NIOSSLServerHandler(context: context))
                    try sync.addHandler(NIOHTTP2Handler(mode: .server, connectionConfiguration: connection))
                    try sync.addHandler(ScriptedConnection(shared))
                }
            }
            .bind(host: host, port: 0).get()
        return ScriptedServer(channel, shared)
    }

    private init(_ channel: any Channel, _ shared: Shared) {
        self.channel = channel
        self.shared = shared
        port = channel.localAddress?.port ?? 0
    }

    var url: String { "https://127.0.0.1:\(port)" }
    var log: Log { shared.log.value }
    var requests: [ServedRequest] { log.requests }

    /// Waits until the log is as asked.
    func until(_ isReached: @escaping @Sendable (Log) -> Bool) async { await shared.log.until(isReached) }

    /// Does something outside of the script, on one stream of a connection.
    func react(_ reactions: [Reaction], connection: Int = 0, streamID: Int = 0) {
        let channel = shared.state.withLock { $0.channels[connection] }
        channel?.triggerUserOutboundEvent(
            ScriptedConnection.Order(streamID: streamID, reactions: reactions), promise: nil)
    }

    /// Answers a request that was met with silence.
    func answer(_ request: ServedRequest, _ reactions: [Reaction]) {
        react(reactions, connection: request.connection, streamID: request.streamID)
    }

    /// Refuses new connections from now on. The port stays taken, so that no other server gets it.
    func stopListening() async throws {
        try await channel.close()
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var reuse: Int32 = 1
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &reuse, 4)
        _ = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { bind(socket, $0.baseAddress, 16) }
        }
        shared.state.withLock { $0.heldSocket = socket }
    }

    func stop() async {
        let channels = shared.state.withLock { Array($0.channels.values) }
        try? await channel.close()
        for channel in channels { try? await channel.close() }
        if let socket = shared.state.withLock({ $0.heldSocket }) { close(socket) }
    }
}
