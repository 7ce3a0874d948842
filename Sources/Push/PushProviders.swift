package import CampanileCore
package import Logging
import NIOCore
import Synchronization

/// The providers of every app: APNs and FCM if it has credentials, else the sandbox. Credentials can change while the
/// process runs: unchanged ones keep their connections, replaced ones are drained. The first credentials create the
/// network; before them there is no connection and no thread.
package final class PushProviders: Sendable {
    struct AppProviders: Sendable {
        let credentials: AppPushCredentials
        let apns: (any PushProvider)?
        let fcm: (any PushProvider)?
    }

    /// The identity that may share connections to APNs: Apple ties a connection to one team and key.
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
        var network: PushNetwork?
        var apps: [String: AppProviders] = [:]
        var teams: [String: APNsProviderTokens] = [:]
        var apnsClients: [APNsHost: HTTP2Client] = [:]
        var fcmClients: [FCMHost: HTTP2Client] = [:]
        var accessTokens: [FCMCredentials: FCMAccessTokens] = [:]
        /// Replaced clients that wait for their last answers.
        var draining: [HTTP2Client] = []
    }

    /// The next state while it is built.
    private struct Change {
        let network: PushNetwork
        let old: State
        var next: State
    }

    private let sandbox: SandboxProvider
    private let options: PayloadOptions
    private let tokenStore: any ProviderTokenStore
    private let limits: HTTP2Limits
    let world: World
    private let logger: Logger
    let state = Mutex(State())

    /// The longest that replaced or closing connections may wait for their last answers.
    private static let drainLimit = TimeAmount.seconds(20)
    private static let shutDownLimit = TimeAmount.seconds(5)

    /// - Parameters:
    ///   - sandbox: takes the pushes for which an app has no credentials.
    ///   - options: of the sandbox's pushes too; real ones take the topic of their credentials.
    ///   - tokenStore: keeps Apple's tokens over a restart.
    package init(
        sandbox: SandboxProvider, options: PayloadOptions, tokenStore: any ProviderTokenStore, world: World, logger: Logger,
        limits: HTTP2Limits = HTTP2Limits()
    ) {
        self.sandbox = sandbox
        self.options = options
        self.tokenStore = tokenStore
        self.world = world
        self.logger = logger
        self.limits = limits
    }

    /// The provider for such a device of an app.
    package func provider(app: String, kind: DeviceProvider) -> any PushProvider {
        state.withLock { $0.apps[app]?.provider(kind) } ?? sandbox
    }

    /// Returns whether such pushes of an app go to the sandbox.
    package func isSandbox(app: String, kind: DeviceProvider) -> Bool {
        state.withLock { $0.apps[app]?.provider(kind) } == nil
    }

    /// The request that a provider would get for a message, from the same values and with the same code.
    package func request(_ message: PushMessage) -> PushRequest {
        let topic = state.withLock { $0.apps[message.app]?.credentials.apns?.topic }
        let options = topic.map { self.options.with(topics: [message.app: $0]) } ?? self.options
        return switch message.device.provider {
        case .apns: APNsPayload.request(message, options: options)
        case .fcm: FCMPayload.request(message, options: options)
        }
    }

    /// The credentials of every app.
    package var credentials: [String: AppPushCredentials] { state.withLock { $0.apps.mapValues(\.credentials) } }

    /// Replaces the present credentials by these, or changes nothing if any of them is wrong. Present ones that are
    /// missing here stay until a restart: otherwise owed pushes would go to the sandbox, and count as accepted without
    /// being sent.
    /// - Parameter trust: called for the first credentials.
    /// - Returns: whether any differ from the present ones.
    /// - Throws: `OperatorError` with all problems, without secrets; or the error of `trust`.
    @discardableResult
    package func apply(_ named: [String: AppPushCredentials], trust: () throws -> PushTrust) throws -> Bool {
        let unused = try state.withLock { state -> [HTTP2Client]? in
            let present = state.apps.mapValues(\.credentials)
            let apps = named.merging(present) { new, present in
                AppPushCredentials(apns: new.apns ?? present.apns, fcm: new.fcm ?? present.fcm)
            }
            guard apps != present else { return nil }
            let network = try state.network ?? PushNetwork(trust: trust())
            state.network = network
            return replace(apps: try PushProviders.parse(apps), over: network, in: &state)
        }
        guard let unused else { return false }
        for client in unused {
            Task {
                await client.shutDown(within: PushProviders.drainLimit)
                self.state.withLock { $0.draining.removeAll { $0 === client } }
            }
        }
        return true
    }

    /// Waits for the last answers and closes every connection. Answers later pushes with `.unprocessed`.
    package func shutDown() async {
        let (clients, network) = state.withLock {
            (Array($0.apnsClients.values) + $0.fcmClients.values + $0.draining, $0.network)
        }
        await withTaskGroup(of: Void.self) { group in
            for client in clients { group.addTask { await client.shutDown(within: PushProviders.shutDownLimit) } }
        }
        await network?.shutDown()
    }

    // MARK: - Building

    /// - Returns: the clients that are no longer needed.
    private func replace(
        apps: [String: ParsedCredentials], over network: PushNetwork, in state: inout State
    ) -> [HTTP2Client] {
        var change = Change(network: network, old: state, next: State(network: network, teams: state.teams))
        for (app, parsed) in apps {
            change.next.apps[app] = AppProviders(
                credentials: parsed.contents, apns: parsed.apns.map { apns(app, $0, &change) },
                fcm: parsed.fcm.map { fcm($0, &change) })
        }
        let unused =
            state.apnsClients.filter { change.next.apnsClients[$0.key] == nil }.map(\.value)
            + state.fcmClients.filter { change.next.fcmClients[$0.key] == nil }.map(\.value)
        change.next.draining = state.draining + unused
        state = change.next
        return unused
    }

    private func apns(_ app: String, _ parsed: ParsedAPNs, _ change: inout Change) -> any PushProvider {
        let key = parsed.key
        // The team keeps its renewal clock for the life of the process, even when its keys change.
        let tokens =
            change.next.teams[key.teamID]
            ?? APNsProviderTokens(team: key.teamID, store: tokenStore, world: world, logger: logger)
        change.next.teams[key.teamID] = tokens
        return APNsProvider(
            key: key, tokens: tokens, production: apnsClient(key, parsed.production, &change),
            sandbox: apnsClient(key, parsed.sandbox, &change),
            options: options.with(topics: [app: parsed.topic]), world: world)
    }

    private func apnsClient(_ key: APNsKey, _ endpoint: HTTP2Endpoint, _ change: inout Change) -> HTTP2Client {
        let host = APNsHost(team: key.teamID, fingerprint: key.fingerprint + key.keyID, endpoint: endpoint)
        var limits = limits
        limits.startsWithOneStream = true
        let client =
            change.next.apnsClients[host] ?? change.old.apnsClients[host]
            ?? HTTP2Client(endpoint: endpoint, limits: limits, network: change.network, world: world)
        change.next.apnsClients[host] = client
        return client
    }

    private func fcm(_ parsed: ParsedFCM, _ change: inout Change) -> any PushProvider {
        let client = fcmClient(parsed, parsed.endpoint, &change)
        let tokenClient = fcmClient(parsed, parsed.tokenEndpoint, &change)
        let tokens =
            change.next.accessTokens[parsed.credentials] ?? change.old.accessTokens[parsed.credentials]
            ?? FCMAccessTokens(
                account: parsed.account, client: tokenClient, path: parsed.tokenPath, world: world, logger: logger)
        change.next.accessTokens[parsed.credentials] = tokens
        return FCMProvider(
            projectID: parsed.account.projectID, tokens: tokens, client: client,
            options: options.with(topics: [:]), world: world)
    }

    private func fcmClient(_ parsed: ParsedFCM, _ endpoint: HTTP2Endpoint, _ change: inout Change) -> HTTP2Client {
        let host = FCMHost(credentials: parsed.credentials, endpoint: endpoint)
        let client =
            change.next.fcmClients[host] ?? change.old.fcmClients[host]
            ?? HTTP2Client(endpoint: endpoint, limits: limits, network: change.network, world: world)
        change.next.fcmClients[host] = client
        return client
    }
}

extension PushProviders.AppProviders {
    fileprivate func provider(_ kind: DeviceProvider) -> (any PushProvider)? {
        switch kind {
        case .apns: apns
        case .fcm: fcm
        }
    }
}
