import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// The TLS ports, and the certificate that they show.
final class ServiceListener: Sendable {
    private struct State {
        var tls: NIOSSLContext
        var listening: [any Channel] = []
        var connections: [ObjectIdentifier: any Channel] = [:]
    }

    private let core: SimulatorCore
    private let authority: SimulatedAuthority
    private let group: any EventLoopGroup
    private let state: Mutex<State>

    init(core: SimulatorCore, authority: SimulatedAuthority, group: any EventLoopGroup) throws {
        self.core = core
        self.authority = authority
        self.group = group
        state = Mutex(State(tls: try ServiceListener.context(authority, core.options)))
    }

    /// TLS 1.2 or newer; HTTP/1.1 too, for clients of Google's services.
    private static func context(
        _ authority: SimulatedAuthority, _ options: SimulatorOptions
    ) throws -> NIOSSLContext {
        let leaf = try authority.leaf(host: options.host)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: [
                .certificate(try NIOSSLCertificate(bytes: Array(leaf.certificatePEM.utf8), format: .pem))
            ],
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(leaf.keyPEM.utf8), format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = options.isStrict ? ["h2"] : ["h2", "http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }

    /// - Returns: the port.
    func listen(host: String, port: Int, environment: SimulatedEnvironment) async throws -> Int {
        let channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try self.prepare(channel, environment) }
            }
            .bind(host: host, port: port).get()
        state.withLock { $0.listening.append(channel) }
        return channel.localAddress?.port ?? port
    }

    private func prepare(_ channel: any Channel, _ environment: SimulatedEnvironment) throws {
        let tls = state.withLock { state in
            state.connections[ObjectIdentifier(channel)] = channel
            return state.tls
        }
        let facts = ConnectionFacts(number: core.opened(), environment: environment)
        channel.closeFuture.whenComplete { _ in
            self.state.withLock { $0.connections[ObjectIdentifier(channel)] = nil }
            self.core.closed()
        }
        let chooser = ProtocolChooser(isStrict: core.options.isStrict) { spoken, pipeline in
            try self.speak(spoken, on: pipeline, facts)
        }
        try channel.pipeline.syncOperations.addHandlers([NIOSSLServerHandler(context: tls), chooser])
    }

    private func speak(
        _ spoken: ProtocolChooser.Spoken, on pipeline: ChannelPipeline.SynchronousOperations, _ facts: ConnectionFacts
    ) throws {
        let wire = WireHandler()
        try pipeline.addHandler(wire)
        switch spoken {
        case .http2:
            try pipeline.addHandler(ServiceListener.frames(streamLimit: core.options.firstStreamLimit))
            try pipeline.addHandler(
                ServiceConnection(core: core, wire: wire, facts: facts) { self.changeCertificate($0) })
        case .http1:
            try pipeline.configureHTTPServerPipeline()
            try pipeline.addHandler(HTTP1Connection(core: core, wire: wire, facts: facts) { self.changeCertificate($0) })
        }
    }

    /// The frame layer, with its guards against hostile clients wide open: a test floods on purpose.
    private static func frames(streamLimit: Int) -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: WireHandler.hidden(streamLimit)),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 32_768),
        ]
        connection.maximumRecentlyResetStreams = 10_000
        connection.maximumConnectionGlitches = .max
        connection.controlFrameRateLimit.maximumCount = 1_000
        connection.controlFrameRateLimit.windowLength = .milliseconds(100)
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = 10_000
        stream.streamResetFrameRateLimit.windowLength = .milliseconds(100)
        stream.streamErrorRateLimit.maximumCount = 10_000
        stream.streamErrorRateLimit.windowLength = .milliseconds(100)
        return NIOHTTP2Handler(mode: .server, connectionConfiguration: connection, streamConfiguration: stream)
    }

    /// Ends the open connections; new ones get another certificate.
    func changeCertificate(_ change: FaultAction.CertificateChange) {
        let signer: SimulatedAuthority?
        switch change {
        case .leaf: signer = authority
        case .otherAuthority: signer = try? SimulatedAuthority.make()
        }
        // Signing can't fail here if it has worked at the start.
        if let signer, let tls = try? ServiceListener.context(signer, core.options) {
            state.withLock { $0.tls = tls }
        }
        endConnections()
    }

    func endConnections() {
        for channel in state.withLock({ Array($0.connections.values) }) {
            channel.pipeline.fireUserInboundEventTriggered(Depart())
        }
    }

    /// Closes everything at once.
    func close() async {
        let (listening, connections) = state.withLock { ($0.listening, Array($0.connections.values)) }
        for channel in listening { try? await channel.close().get() }
        for channel in connections { channel.close(promise: nil) }
        for channel in connections { try? await channel.closeFuture.get() }
    }
}
