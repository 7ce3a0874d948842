package import CampanileCore
import FoundationEssentials
package import Logging
package import Push
import SQLEngine
import Synchronization

/// Who takes the pushes of a lane: Apple and Google for the apps that have credentials, the sandbox for the rest. The
/// credentials may be replaced while the server runs; without any, no connection and no thread of it exists.
package final class Providers: Sendable {
    private struct State: Sendable {
        var apps: [String: AppPushCredentials] = [:]
        var network: PushNetwork?
        var directory: PushDirectory?
    }

    private let sandbox: SandboxProvider
    private let contentAvailable: Bool
    private let tokenStore: any ProviderTokenStore
    private let world: World
    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter tokenStore: where Apple's tokens survive a restart.
    package init(
        sandbox: SandboxProvider, contentAvailable: Bool, tokenStore: any ProviderTokenStore, world: World, logger: Logger
    ) {
        self.sandbox = sandbox
        self.contentAvailable = contentAvailable
        self.tokenStore = tokenStore
        self.world = world
        self.logger = logger
    }

    package func provider(_ lane: Lane) -> any PushProvider {
        state.withLock { $0.directory?.provider(app: lane.app, kind: lane.provider) } ?? sandbox
    }

    /// Whether such pushes of an app stay in the process.
    package func isSandbox(_ lane: Lane) -> Bool {
        state.withLock { $0.directory?.isSandbox(app: lane.app, kind: lane.provider) } ?? true
    }

    /// Takes the credentials of a configuration in place of the present ones. Nothing changes when any of them is wrong.
    /// Where there are none any more the present ones stay until a restart: what is owed would go to the sandbox, and count
    /// as accepted without being sent.
    /// - Returns: whether any differ from the present ones.
    /// - Throws: `PushDirectoryError`, `PushNetwork.TrustError` or `SettingComplaint`, with sentences.
    @discardableResult
    package func apply(_ configuration: Configuration) throws -> Bool {
        let named = try configuration.pushCredentials()
        return try state.withLock { state in
            let apps = named.merging(state.apps) { new, present in
                AppPushCredentials(apns: new.apns ?? present.apns, fcm: new.fcm ?? present.fcm)
            }
            guard apps != state.apps else { return false }
            if let directory = state.directory {
                try directory.replace(apps: apps)
            } else {
                let network = try state.network ?? PushNetwork(trust: configuration.pushTrust())
                state.network = network
                state.directory = try PushDirectory(
                    apps: apps, network: network, sandbox: sandbox, contentAvailable: contentAvailable,
                    tokenStore: tokenStore, world: world, logger: logger)
            }
            state.apps = apps
            return true
        }
    }

    /// The lanes that keep credentials which a configuration doesn't name any more, in order.
    func kept(without configuration: Configuration) -> [Lane] {
        state.withLock(\.apps).sorted { $0.key < $1.key }.flatMap { name, present -> [Lane] in
            let app = configuration.apps[name]
            var lanes: [Lane] = []
            if present.apns != nil, app?.apns == nil { lanes.append(Lane(app: name, provider: .apns)) }
            if present.fcm != nil, app?.fcm == nil { lanes.append(Lane(app: name, provider: .fcm)) }
            return lanes
        }
    }

    /// What `campanile doctor` finds out about an app's providers.
    package func check(app: String) async -> [PushDirectory.Finding] {
        await state.withLock { $0.directory }?.check(app: app) ?? []
    }

    /// Waits for the last answers and closes every connection.
    package func shutDown() async {
        let (directory, network) = state.withLock { ($0.directory, $0.network) }
        await directory?.shutDown()
        await network?.shutDown()
    }
}

extension Configuration {
    /// What the files hold that the apps' settings name.
    /// - Throws: `SettingComplaint` for a file that can't be read.
    func pushCredentials() throws -> [String: AppPushCredentials] {
        var credentials: [String: AppPushCredentials] = [:]
        for (name, app) in apps where app.apns != nil || app.fcm != nil {
            let apns = try app.apns.map { apns in
                APNsCredentials(
                    keyPEM: String(decoding: try content(apns.keyFile), as: UTF8.self), keyID: apns.keyID,
                    teamID: apns.teamID, topic: apns.topic, productionURL: apns.url?.absoluteString)
            }
            let fcm = try app.fcm.map { fcm in
                FCMCredentials(
                    serviceAccountJSON: try content(fcm.serviceAccountFile), url: fcm.url?.absoluteString)
            }
            credentials[name] = AppPushCredentials(apns: apns, fcm: fcm)
        }
        return credentials
    }

    func pushTrust() throws -> PushTrust {
        try push.caFile.map { .authorities(pem: try content($0)) } ?? .system
    }

    private func content(_ path: String) throws -> [UInt8] {
        do {
            return Array(try readNamedFile(path, maximumBytes: ConfigurationLimits.namedFileBytes))
        } catch {
            throw SettingComplaint("The file \(quotedForMessage(path: path)) \(error.text).")
        }
    }
}
