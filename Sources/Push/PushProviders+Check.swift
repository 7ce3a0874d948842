package import CampanileCore
import Synchronization

extension PushProviders {
    /// One check of `campanile doctor`.
    package struct Finding: Sendable, Equatable {
        package let subject: String
        package let isGood: Bool
        /// The finding, or what to do.
        package let sentence: String
    }

    /// Checks everything that an app's pushes depend on: keys, tokens, and a TLS connection to each host. Sends nothing
    /// to any device; fetches an access token from Google, and nothing from Apple.
    /// - Parameter only: nil checks both providers.
    package func check(app: String, only: DeviceProvider? = nil) async -> [Finding] {
        let (credentials, state) = state.withLock { ($0.apps[app]?.credentials, $0) }
        guard let credentials else {
            return [Finding(subject: app, isGood: true, sentence: "No credentials: pushes go to the sandbox.")]
        }
        guard let parsed = try? PushProviders.parse([app: credentials])[app] else { return [] }
        var findings: [Finding] = []
        if only != .fcm, let apns = parsed.apns { findings += await check(apns, in: state) }
        if only != .apns, let fcm = parsed.fcm { findings += await check(fcm, in: state) }
        return findings
    }

    private func check(_ apns: ParsedAPNs, in state: State) async -> [Finding] {
        let key = apns.key
        var findings = [
            Finding(subject: "APNs key", isGood: true, sentence: "Key \(key.keyID) of team \(key.teamID) can be read.")
        ]
        let signature = Result { () throws(OperatorError) in
            try key.sign(issuedAt: world.now().milliseconds / 1_000)
        }
        switch signature {
        case .success: findings.append(Finding(subject: "APNs token", isGood: true, sentence: "It signs a token."))
        case .failure(let error):
            findings.append(Finding(subject: "APNs token", isGood: false, sentence: error.description))
        }
        let hosts = apns.production == apns.sandbox ? [apns.production] : [apns.production, apns.sandbox]
        for endpoint in hosts {
            let host = APNsHost(team: key.teamID, fingerprint: key.fingerprint + key.keyID, endpoint: endpoint)
            if let client = state.apnsClients[host] { findings.append(await check(client)) }
        }
        return findings
    }

    private func check(_ fcm: ParsedFCM, in state: State) async -> [Finding] {
        let account = fcm.account
        var findings = [
            Finding(
                subject: "FCM service account", isGood: true,
                sentence: "\(account.clientEmail) of project \(account.projectID) can be read.")
        ]
        let hosts = fcm.endpoint == fcm.tokenEndpoint ? [fcm.endpoint] : [fcm.endpoint, fcm.tokenEndpoint]
        for endpoint in hosts {
            let host = FCMHost(credentials: fcm.credentials, endpoint: endpoint)
            if let client = state.fcmClients[host] { findings.append(await check(client)) }
        }
        guard let tokens = state.accessTokens[fcm.credentials] else { return findings }
        let grant = await withCheckedContinuation { continuation in
            tokens.token { continuation.resume(returning: $0) }
        }
        switch grant {
        case .success:
            findings.append(Finding(subject: "FCM token", isGood: true, sentence: "Google gives an access token."))
        case .failure(let trouble):
            findings.append(Finding(subject: "FCM token", isGood: false, sentence: trouble.reason))
        }
        return findings
    }

    private func check(_ client: HTTP2Client) async -> Finding {
        switch await client.probe() {
        case .success:
            Finding(subject: client.endpoint.name, isGood: true, sentence: "It can be reached over HTTP/2 and TLS.")
        case .failure(let failure): Finding(subject: client.endpoint.name, isGood: false, sentence: failure.reason)
        }
    }
}
