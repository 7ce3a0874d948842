import Foundation
import PushSimulator

@testable import CampanileServer

/// The simulator of Apple and Google, and the files that point a server's apps at it.
struct SimulatedProviders {
    let simulator: PushSimulator
    /// The simulator's, and that of the server that pushes to it: a token of tomorrow is none.
    let clock: HandClock
    let folder = TemporaryFolder()

    /// Made once: an RSA key takes long.
    private static let credentials = Result { try SimulatorCredentials.make() }

    static func start() async throws -> SimulatedProviders {
        let clock = HandClock()
        var options = SimulatorOptions(world: .hand(clock))
        options.credentials = [try credentials.get()]
        options.isStrict = true
        return SimulatedProviders(simulator: try await PushSimulator.start(options), clock: clock)
    }

    private init(simulator: PushSimulator, clock: HandClock) {
        self.simulator = simulator
        self.clock = clock
    }

    var keyFile: String { folder.path + "/key.p8" }

    /// Writes the key that Apple knows, or another one in its place.
    func writeKey(_ pem: String? = nil) throws {
        try (pem ?? simulator.credentials.p8PEM).write(toFile: keyFile, atomically: true, encoding: .utf8)
    }

    /// Points the app `default` at the simulator.
    func configure(_ configuration: inout Configuration) throws {
        let credentials = simulator.credentials
        let account = folder.path + "/account.json"
        let authority = folder.path + "/ca.pem"
        try simulator.serviceAccountJSON().write(toFile: account, atomically: true, encoding: .utf8)
        try simulator.caPEM.write(toFile: authority, atomically: true, encoding: .utf8)
        if !FileManager.default.fileExists(atPath: keyFile) { try writeKey() }
        configuration.push.caFile = authority
        configuration.apps["default"] = Configuration.App(
            apns: Configuration.APNs(
                keyFile: keyFile, keyID: credentials.keyID, teamID: credentials.teamID, topic: credentials.topic,
                url: URL(string: simulator.apnsURL())),
            fcm: Configuration.FCM(serviceAccountFile: account, url: URL(string: simulator.fcmURL)))
    }
}

/// A server whose pushes go to a simulator, both stopped at the end.
func withSimulator(
    prepare: (SimulatedProviders) throws -> Void = { _ in },
    _ body: (RunningServer, SimulatedProviders) async throws -> Void
) async throws {
    let providers = try await SimulatedProviders.start()
    do {
        try prepare(providers)
        var configuration = Configuration()
        try providers.configure(&configuration)
        try await withServer(
            clock: providers.clock,
            {
                $0.apps = configuration.apps
                $0.push = configuration.push
            }
        ) { try await body($0, providers) }
    } catch {
        await providers.simulator.shutDown()
        throw error
    }
    await providers.simulator.shutDown()
}
