import CampanileCore
import NIOCore
import NIOPosix
import Synchronization

/// Real HTTP/2 over TLS stand-ins for APNs, Google's token endpoint and FCM, strict about what the real ones check,
/// with faults on command; and the phones behind them.
package final class PushSimulator: Sendable {
    private let core: SimulatorCore
    private let listener: ServiceListener
    private let page: PageServer?
    /// One thread judges all pushes, so that the same requests meet the same faults. The page has its own thread, so
    /// that a long list of phones delays no push.
    private let group: MultiThreadedEventLoopGroup
    private let pageGroup: MultiThreadedEventLoopGroup
    /// The ports in use.
    package let port: Int
    package let sandboxPort: Int?
    package let pagePort: Int?
    /// The certificate that a client must trust.
    package let caPEM: String
    /// The apps that may push; never empty.
    package let allCredentials: [SimulatorCredentials]
    package let credentials: SimulatorCredentials
    private let host: String

    /// Serves until `shutDown`.
    /// - Parameter prepare: called when all ports are bound, before the page answers anybody.
    /// - Throws: when an option is invalid, a port is taken or a credential can't be read; and what `prepare` throws.
    package static func start(
        _ options: SimulatorOptions, prepare: (PushSimulator) throws -> Void = { _ in }
    ) async throws -> PushSimulator {
        let simulator = try await bind(options)
        do {
            try prepare(simulator)
            try await simulator.page?.accept()
        } catch {
            await simulator.shutDown()
            throw error
        }
        return simulator
    }

    private static func bind(_ options: SimulatorOptions) async throws -> PushSimulator {
        if let problem = options.problem { throw OperatorError(problem) }
        let credentials = options.credentials.isEmpty ? [try SimulatorCredentials.make()] : options.credentials
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let pageGroup = options.pagePort == nil ? group : MultiThreadedEventLoopGroup(numberOfThreads: 1)
        do {
            return try await PushSimulator(options, credentials: credentials, group: group, pageGroup: pageGroup)
        } catch {
            try? await group.shutdownGracefully()
            if pageGroup !== group { try? await pageGroup.shutdownGracefully() }
            throw error
        }
    }

    private init(
        _ options: SimulatorOptions, credentials: [SimulatorCredentials], group: MultiThreadedEventLoopGroup,
        pageGroup: MultiThreadedEventLoopGroup
    ) async throws {
        guard let first = credentials.first else { throw OperatorError("There are no credentials to push with.") }
        self.group = group
        self.pageGroup = pageGroup
        self.credentials = first
        allCredentials = credentials
        host = options.host
        let authority = try options.authority ?? SimulatedAuthority.make()
        caPEM = authority.certificatePEM
        let core = try SimulatorCore(options: options, credentials: credentials)
        let listener = try ServiceListener(core: core, authority: authority, group: group)
        self.core = core
        self.listener = listener
        do {
            port = try await listener.listen(host: options.host, port: options.port, environment: .production)
            core.setTokenEndpoint(host: options.host, port: port)
            sandboxPort =
                if let port = options.sandboxPort {
                    try await listener.listen(host: options.host, port: port, environment: .sandbox)
                } else { nil }
            page =
                if let port = options.pagePort {
                    try await PageServer.bind(
                        core: core, host: options.host, port: port, group: pageGroup,
                        changeCertificate: { listener.changeCertificate($0) })
                } else { nil }
            pagePort = page?.port
        } catch {
            await listener.close()
            throw error
        }
    }

    /// Ends every connection and frees the ports.
    package func shutDown() async {
        await page?.close()
        await listener.close()
        try? await group.shutdownGracefully()
        if pageGroup !== group { try? await pageGroup.shutdownGracefully() }
    }

    // MARK: - Addresses

    /// For `--apns-url`. Without its own port, the sandbox has production's address.
    package func apnsURL(_ environment: SimulatedEnvironment = .production) -> String {
        url(port: environment == .sandbox ? sandboxPort ?? port : port)
    }

    /// For `--fcm-url`.
    package var fcmURL: String { url(port: port) }
    /// Google's token endpoint: a service account's `token_uri`.
    package var tokenURI: String { fcmURL + "/token" }
    package var pageURL: String? { pagePort.map { "http://\(bracketedHost):\($0)" } }

    private func url(port: Int) -> String { "https://\(bracketedHost):\(port)" }
    private var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

    /// The file that Google would have given out, pointing at this simulator's token endpoint.
    package func serviceAccountJSON(_ credentials: SimulatorCredentials? = nil) -> String {
        (credentials ?? self.credentials).serviceAccountJSON(tokenURI: tokenURI)
    }

    // MARK: - Faults

    /// Replaces all rules by these; an empty list ends all faults.
    package func setFaults(_ rules: [FaultRule]) { core.setFaults(rules) }
    /// Replaces all rules by those of a JSON text, as the control calls do.
    package func setFaults(json: String) throws {
        core.setFaults(try FaultRule.list(try JSONValue(parsing: Array(json.utf8))))
    }
    /// Ends the open connections; new ones get another certificate.
    package func changeCertificate(_ change: FaultAction.CertificateChange) { listener.changeCertificate(change) }
    /// Ends all connections, after the answers have gone out.
    package func endConnections() { listener.endConnections() }

    // MARK: - Phones

    package func devices() -> [Phone] { core.state.withLock { Array($0.phones.phones.values) } }
    package func device(_ token: String) -> Phone? { core.state.withLock { $0.phones[token] } }

    /// Makes a device token known, in the given environment.
    package func addDevice(
        _ token: String, platform: PhonePlatform = .ios, environment: SimulatedEnvironment = .production,
        app: String? = nil
    ) {
        core.state.withLock { $0.phones.set(token, platform: platform, environment: environment, app: app) }
    }

    /// Switches a phone off or on, and delivers its waiting pushes. An unknown token becomes a phone.
    package func setOnline(_ token: String, _ isOnline: Bool) { change(token, PhoneChange(isOnline: isOnline)) }

    /// Changes a phone by hand, and delivers what waited for that. An unknown token becomes a phone.
    package func change(_ token: String, _ change: PhoneChange) {
        core.state.withLock { state in
            if state.phones[token] == nil { state.phones.set(token) }
            _ = state.phones.change(token, now: core.now(state)) { change.apply(to: &$0) }
        }
    }

    /// The app removes what the server calls handled, and sets the number of the same answer.
    package func reconcile(_ token: String, handled: [String], number: Int64, version: Int64) {
        core.state.withLock { state in
            _ = state.phones.change(token, now: core.now(state)) {
                $0.reconcile(handled: handled, number: number, version: version)
            }
        }
    }

    /// The app is removed and installed again; from then on it has another token, and the old one is dead.
    package func reinstall(_ token: String, as newToken: String) {
        core.state.withLock { $0.phones.reinstall(token, as: newToken, now: core.now($0)) }
    }

    /// The phones' rules where Apple's and Google's pages leave them open.
    package var phoneRules: PhoneRules {
        get { core.state.withLock { $0.phones.rules } }
        set { core.state.withLock { $0.phones.rules = newValue } }
    }

    /// The app registers its installation's ID with Firebase.
    package func registerInstallationID(_ identifier: String) {
        core.state.withLock { $0.phones.registerInstallationID(identifier) }
    }

    /// The app, or an SDK in it, calls `getToken()`: the end of an installation's ID that it has registered.
    package func callGetToken(_ identifier: String) { core.state.withLock { $0.phones.callGetToken(identifier) } }

    /// Declares the token dead since the given moment (milliseconds since 1970); nil makes it valid again.
    package func markGone(_ token: String, since: Int64?) {
        core.state.withLock { state in
            if state.phones[token] == nil { state.phones.set(token) }
            _ = state.phones.setGone(token, since: since)
        }
    }

    // MARK: - Records

    package var counters: SimulatorCounters { core.counters() }
    /// The newest requests, newest first.
    package func requests(_ limit: Int = 100) -> [RequestRecord] { core.state.withLock { $0.log.newest(limit) } }
    /// Forgets phones, requests, counts and faults; keeps provider tokens and their renewals.
    package func reset() { core.reset() }
}
