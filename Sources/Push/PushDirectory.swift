package import CampanileCore
package import Logging
import NIOCore
import Synchronization

/// The providers of every app, built from their credentials. A key or an address may be replaced while the process
/// runs: what didn't change keeps its connections, what did is drained.
package final class PushDirectory: Sendable {
    struct AppProviders: Sendable {
        let credentials: AppPushCredentials
        let apns: (any PushProvider)?
        let fcm: (any PushProvider)?
    }

    /// What may share connections to APNs: Apple ties a connection to one team and key.
    struct APNsHost: Hashable {
        let team: String
        let fingerprint: String
        let endpoint: HTTP2Endpoint
    }

    struct FCMHost: Hashable {
        let credentials: FCMCredentials
        let endpoint: HTTP2Endpoint
    }

    struct State: Sendable {
        var apps: [String: AppProviders] = [:]
        var teams: [String: TeamTokens] = [:]
        var apnsClients: [APNsHost: HTTP2Client] = [:]
        var fcmClients: [FCMHost: HTTP2Client] = [:]
        var accessTokens: [FCMCredentials: AccessTokens] = [:]
        /// Replaced, and waiting for their last answers.
        var draining: [HTTP2Client] = []
    }

    private let network: PushNetwork
    private let sandbox: SandboxProvider
    private let contentAvailable: Bool
    private let tokenStore: any ProviderTokenStore
    private let limits: HTTP2Limits
    let world: World
    private let logger: Logger
    let state: Mutex<State>

    /// How long connections that are replaced or shut down may take for their last answers.
    private static let drainLimit = TimeAmount.seconds(20)
    private static let shutDownLimit = TimeAmount.seconds(5)

    /// - Parameters:
    ///   - apps: the credentials of every app that has any.
    ///   - sandbox: where pushes go that an app has no credentials for.
    ///   - contentAvailable: as in `PayloadOptions`.
    /// - Throws: `PushDirectoryError` with everything that is wrong with the credentials.
    package init(
        apps: [String: AppPushCredentials], network: PushNetwork, sandbox: SandboxProvider, contentAvailable: Bool,
        tokenStore: any ProviderTokenStore, world: World, logger: Logger, limits: HTTP2Limits = HTTP2Limits()
    ) throws(PushDirectoryError) {
        self.network = network
        self.sandbox = sandbox
        self.contentAvailable = contentAvailable
        self.tokenStore = tokenStore
        self.world = world
        self.logger = logger
        self.limits = limits
        state = Mutex(State())
        try replace(apps: apps)
    }

    /// Who delivers to such a device of an app.
    package func provider(app: String, kind: DeviceProvider) -> any PushProvider {
        state.withLock { $0.apps[app]?.provider(kind) } ?? sandbox
    }

    /// Whether such pushes of an app stay in the process.
    package func isSandbox(app: String, kind: DeviceProvider) -> Bool {
        state.withLock { $0.apps[app]?.provider(kind) } == nil
    }

    /// Puts these credentials in the place of the present ones. Nothing changes when any of them is wrong.
    /// - Throws: `PushDirectoryError` with everything that is wrong.
    package func replace(apps: [String: AppPushCredentials]) throws(PushDirectoryError) {
        let parsed = try PushDirectory.parse(apps)
        let unused = state.withLock { state -> [HTTP2Client] in
            var next = State(teams: state.teams)
            for (app, credentials) in parsed {
                next.apps[app] = AppProviders(
                    credentials: credentials.contents,
                    apns: credentials.apns.map { apns(app, $0, from: state, to: &next) },
                    fcm: credentials.fcm.map { fcm($0, from: state, to: &next) })
            }
            let unused = state.apnsClients.filter { next.apnsClients[$0.key] == nil }.map(\.value)
                + state.fcmClients.filter { next.fcmClients[$0.key] == nil }.map(\.value)
            next.draining = state.draining + unused
            state = next
            return unused
        }
        for client in unused {
            Task {
                await client.shutDown(within: PushDirectory.drainLimit)
                self.state.withLock { $0.draining.removeAll { $0 === client } }
            }
        }
    }

    /// Waits for the last answers and closes every connection. Pushes that come later go nowhere: `.unprocessed`.
    package func shutDown() async {
        let clients = state.withLock { Array($0.apnsClients.values) + $0.fcmClients.values + $0.draining }
        await withTaskGroup(of: Void.self) { group in
            for client in clients { group.addTask { await client.shutDown(within: PushDirectory.shutDownLimit) } }
        }
    }

    // MARK: - Building

    private func apns(
        _ app: String, _ parsed: ParsedAPNs, from old: State, to next: inout State
    ) -> any PushProvider {
        let key = parsed.key
        // The clock of renewals belongs to the team for as long as the process lives, whatever keys come and go.
        let tokens = next.teams[key.teamID]
            ?? TeamTokens(team: key.teamID, store: tokenStore, world: world, logger: logger)
        next.teams[key.teamID] = tokens
        let production = apnsClient(key, parsed.production, from: old, to: &next)
        let sandbox = apnsClient(key, parsed.sandbox, from: old, to: &next)
        return APNsProvider(
            key: key, tokens: tokens, production: production, sandbox: sandbox,
            options: PayloadOptions(contentAvailable: contentAvailable, topics: [app: parsed.topic]), world: world)
    }

    private func apnsClient(
        _ key: APNsKey, _ endpoint: HTTP2Endpoint, from old: State, to next: inout State
    ) -> HTTP2Client {
        let host = APNsHost(team: key.teamID, fingerprint: key.fingerprint + key.keyID, endpoint: endpoint)
        if let client = next.apnsClients[host] ?? old.apnsClients[host] {
            next.apnsClients[host] = client
            return client
        }
        var limits = limits
        limits.startsWithOneStream = true
        let client = HTTP2Client(endpoint: endpoint, limits: limits, network: network, world: world)
        next.apnsClients[host] = client
        return client
    }

    private func fcm(_ parsed: ParsedFCM, from old: State, to next: inout State) -> any PushProvider {
        let client = fcmClient(parsed, parsed.endpoint, from: old, to: &next)
        let tokenClient = fcmClient(parsed, parsed.tokenEndpoint, from: old, to: &next)
        let tokens = next.accessTokens[parsed.credentials] ?? old.accessTokens[parsed.credentials]
            ?? AccessTokens(
                account: parsed.account, client: tokenClient, path: parsed.tokenPath, world: world, logger: logger)
        next.accessTokens[parsed.credentials] = tokens
        return FCMProvider(
            projectID: parsed.account.projectID, tokens: tokens, client: client,
            options: PayloadOptions(contentAvailable: contentAvailable, topics: [:]), world: world)
    }

    private func fcmClient(
        _ parsed: ParsedFCM, _ endpoint: HTTP2Endpoint, from old: State, to next: inout State
    ) -> HTTP2Client {
        let host = FCMHost(credentials: parsed.credentials, endpoint: endpoint)
        let client = next.fcmClients[host] ?? old.fcmClients[host]
            ?? HTTP2Client(endpoint: endpoint, limits: limits, network: network, world: world)
        next.fcmClients[host] = client
        return client
    }
}

extension PushDirectory.AppProviders {
    fileprivate func provider(_ kind: DeviceProvider) -> (any PushProvider)? {
        switch kind {
        case .apns: apns
        case .fcm: fcm
        }
    }
}
