import CampanileCore
import Foundation
import Logging
import Push

@testable import CampanileServer

/// The whole program on a real socket and a real file; the clock stands unless the test moves it.
final class RunningServer: Sendable {
    let folder: TemporaryFolder
    let clock: HandClock
    let world: World
    let app: App
    let client: HTTPClient
    let configuration: Configuration

    static let secret = Secret("a secret of more than thirty-two bytes")

    init(
        folder: TemporaryFolder = TemporaryFolder(), clock: HandClock = HandClock(), provider: RecordingProvider? = nil,
        logger: Logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
        sink: LogSink = LogSink(descriptor: -1, format: .json),
        _ configure: (inout Configuration) -> Void = { _ in }
    ) async throws {
        self.folder = folder
        self.clock = clock
        world = .hand(clock, seed: UInt64.random(in: .min ... .max))
        var configuration = Configuration()
        configuration.database = folder.database
        configuration.port = 0
        configuration.jwt.secret = RunningServer.secret
        // While the machine is busy a read of the database may take long.
        configuration.databaseReadMilliseconds = 600_000
        configure(&configuration)
        self.configuration = configuration
        app = try await App(
            configuration: configuration, world: world, sink: sink, logger: logger, provider: provider)
        client = HTTPClient(port: app.port)
    }

    /// The commands of an operator beside it, over another connection, as the command line's.
    func operations() throws -> OperatorCommands { try OperatorCommands(configuration, world: world) }

    func producer(_ name: String = "tests", app: String = AppName.standard) throws -> String {
        let operations = try operations()
        defer { operations.close() }
        return "Bearer " + (try operations.createKey(name: name, app: app))
    }

    /// A key made with `--operate`.
    func `operator`(_ name: String = "watch", app: String = AppName.standard) throws -> String {
        let operations = try operations()
        defer { operations.close() }
        return "Bearer " + (try operations.createKey(name: name, app: app, kind: .operate))
    }

    /// A key made with `--broadcast`.
    func broadcaster(_ name: String = "pages", app: String = AppName.standard) throws -> String {
        let operations = try operations()
        defer { operations.close() }
        return "Bearer " + (try operations.createKey(name: name, app: app, kind: .broadcast))
    }

    func user(_ name: String = "alice", app: String = AppName.standard, lifetime: Int64 = 3_600) async throws -> String {
        "Bearer "
            + (try configuration.signToken(user: name, app: app, lifetime: lifetime, world: world))
    }

    func stop() async { await app.stop() }

    /// Waits until no push is due now, in flight or unsettled.
    func untilQuiet() async throws { try await lookUntil { try await app.deliveryWorker.isQuiet } }

    /// Waits until no more than so many streams are open: a client may see the end of one before the server has noted it.
    func untilStreams(atMost count: Int) async throws { try await lookUntil { app.realtime.quota.takenCount <= count } }
}

/// Runs a test against a server, and stops it whatever happens.
func withServer(
    clock: HandClock = HandClock(), _ configure: (inout Configuration) -> Void = { _ in },
    _ body: (RunningServer) async throws -> Void
) async throws {
    try await stopping(try await RunningServer(clock: clock, configure), after: body)
}

/// Runs a test against a server that there is, and stops it whatever happens.
func stopping(_ server: RunningServer, after body: (RunningServer) async throws -> Void) async throws {
    do {
        try await body(server)
    } catch {
        await server.stop()
        throw error
    }
    await server.stop()
}
