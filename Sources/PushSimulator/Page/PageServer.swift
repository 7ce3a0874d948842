import CampanileCore
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// The plain HTTP port: the page for people, the control calls, and the live events.
final class PageServer: Sendable {
    /// The interval between events to the watchers.
    private static let tickMilliseconds: Int64 = 100
    /// The most changed phones in one tick; more come with the next.
    private static let phonesPerTick = 200

    private struct State {
        var watching: [ObjectIdentifier: any Channel] = [:]
        var connections: [ObjectIdentifier: any Channel] = [:]
        var requests = -1
    }

    private let core: SimulatorCore
    private let state = Mutex(State())
    private let control: ControlCalls
    private let listening: any Channel
    let hosts: PageHosts
    let port: Int

    /// Binds the port. Connections wait for `accept`.
    static func bind(
        core: SimulatorCore, host: String, port: Int, group: any EventLoopGroup,
        changeCertificate: @escaping @Sendable (FaultAction.CertificateChange) -> Void
    ) async throws -> PageServer {
        let late = Late()
        let channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 64)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.autoRead, value: false)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let server = late.server.withLock({ $0 }) else { throw ChannelError.ioOnClosedChannel }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    try channel.pipeline.syncOperations.addHandler(PageConnection(server))
                    server.opened(channel)
                }
            }
            .bind(host: host, port: port).get()
        let server = PageServer(
            core: core, listening: channel, hosts: PageHosts(listeningOn: host), port: port,
            changeCertificate: changeCertificate)
        late.server.withLock { $0 = server }
        return server
    }

    /// The server's state for connections: exists once the port is known.
    private final class Late: Sendable {
        let server = Mutex<PageServer?>(nil)
    }

    private init(
        core: SimulatorCore, listening: any Channel, hosts: PageHosts, port: Int,
        changeCertificate: @escaping @Sendable (FaultAction.CertificateChange) -> Void
    ) {
        self.core = core
        self.listening = listening
        self.hosts = hosts
        self.port = listening.localAddress?.port ?? port
        control = ControlCalls(core: core, changeCertificate: changeCertificate)
    }

    func accept() async throws { try await listening.setOption(.autoRead, value: true).get() }

    func answer(_ request: PageRequest) -> PageAnswer { control.answer(request) }

    private func opened(_ channel: any Channel) {
        state.withLock { $0.connections[ObjectIdentifier(channel)] = channel }
        channel.closeFuture.whenComplete { _ in
            self.state.withLock { $0.connections[ObjectIdentifier(channel)] = nil }
            self.forget(channel)
        }
    }

    func close() async {
        try? await listening.close().get()
        let connections = state.withLock { Array($0.connections.values) }
        for channel in connections { channel.close(promise: nil) }
        for channel in connections { try? await channel.closeFuture.get() }
    }

    // MARK: - Those who watch

    /// Sends every change to the channel from now on.
    func watch(_ channel: any Channel) {
        let isFirst = state.withLock { state in
            state.watching[ObjectIdentifier(channel)] = channel
            return state.watching.count == 1
        }
        guard isFirst else { return }
        core.state.withLock { $0.phones.watch(true) }
        tick(on: channel.eventLoop)
    }

    private func forget(_ channel: any Channel) {
        let isLast = state.withLock { state in
            state.watching.removeValue(forKey: ObjectIdentifier(channel)) != nil && state.watching.isEmpty
        }
        if isLast { core.state.withLock { $0.phones.watch(false) } }
    }

    private func tick(on loop: any EventLoop) {
        let watching = state.withLock { Array($0.watching.values) }
        guard !watching.isEmpty else { return }
        let text = news()
        if !text.isEmpty {
            for channel in watching {
                // Drops a watcher that doesn't read: its page reconnects and fetches everything.
                guard channel.isWritable else {
                    channel.close(promise: nil)
                    continue
                }
                channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: text))), promise: nil)
            }
        }
        loop.scheduleTask(in: .milliseconds(PageServer.tickMilliseconds)) { self.tick(on: loop) }
    }

    /// The events since the last tick (HTML, "server-sent events").
    private func news() -> [UInt8] {
        let phones = core.state.withLock { $0.phones.takeChanged(PageServer.phonesPerTick) }
        var bytes: [UInt8] = []
        for phone in phones { bytes += Array("event: device\ndata: ".utf8) + phone.json.text + [10, 10] }
        let counters = core.counters()
        let isNew = state.withLock { state in
            defer { state.requests = counters.requests }
            return state.requests != counters.requests
        }
        if isNew || !phones.isEmpty {
            bytes += Array("event: counters\ndata: ".utf8) + counters.summary.text + [10, 10]
        }
        return bytes
    }
}

extension SimulatorCounters {
    /// The content of the page.
    var summary: JSONValue {
        .object([
            .init("requests", .integer(Int64(requests))), .init("accepted", .integer(Int64(accepted))),
            .init("duplicates", .integer(Int64(duplicates))),
            .init("open_connections", .integer(Int64(openConnections))),
        ])
    }
}
