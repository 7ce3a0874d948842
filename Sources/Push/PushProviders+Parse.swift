import CampanileCore

/// The parsed credentials of one app.
struct ParsedCredentials: Sendable {
    let contents: AppPushCredentials
    let apns: ParsedAPNs?
    let fcm: ParsedFCM?
}

struct ParsedAPNs: Sendable {
    let key: APNsKey
    let topic: String
    let production: HTTP2Endpoint
    /// Equal to `production` if one server stands for both environments.
    let sandbox: HTTP2Endpoint

    init(_ credentials: APNsCredentials) throws(OperatorError) {
        key = try APNsKey(pem: credentials.keyPEM, keyID: credentials.keyID, teamID: credentials.teamID)
        topic = credentials.topic
        let isPlain = topic.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard !topic.isEmpty, isPlain else { throw OperatorError("topic must be the app's bundle id.") }
        let given = try ParsedAPNs.endpoint(credentials.url)
        production = given ?? HTTP2Endpoint(host: "api.push.apple.com")
        sandbox = given ?? HTTP2Endpoint(host: "api.sandbox.push.apple.com")
    }

    fileprivate static func endpoint(_ url: String?) throws(OperatorError) -> HTTP2Endpoint? {
        guard let url else { return nil }
        return try HTTP2Endpoint(url: url)
    }
}

struct ParsedFCM: Sendable {
    let credentials: FCMCredentials
    let account: ServiceAccount
    let endpoint: HTTP2Endpoint
    let tokenEndpoint: HTTP2Endpoint
    /// The token endpoint's path at its host.
    let tokenPath: String

    init(_ credentials: FCMCredentials) throws(OperatorError) {
        self.credentials = credentials
        account = try ServiceAccount(json: credentials.serviceAccountJSON)
        if let given = try ParsedAPNs.endpoint(credentials.url) {
            endpoint = given
            tokenEndpoint = given
            tokenPath = given.basePath + "/token"
            return
        }
        endpoint = HTTP2Endpoint(host: "fcm.googleapis.com")
        guard let token = try ParsedAPNs.endpoint(account.tokenURI) else {
            throw OperatorError("The service account file has no token_uri.")
        }
        tokenEndpoint = HTTP2Endpoint(host: token.host, port: token.port)
        tokenPath = token.basePath.isEmpty ? "/" : token.basePath
    }
}

extension PushProviders {
    /// - Throws: `OperatorError` with the problems of all apps, one line each with the app's name.
    static func parse(_ apps: [String: AppPushCredentials]) throws(OperatorError) -> [String: ParsedCredentials] {
        var parsed: [String: ParsedCredentials] = [:]
        var problems: [String] = []
        for (app, contents) in apps.sorted(by: { $0.key < $1.key }) {
            let apns = read(contents.apns, "apps.\(app).apns", &problems) { value throws(OperatorError) in
                try ParsedAPNs(value)
            }
            let fcm = read(contents.fcm, "apps.\(app).fcm", &problems) { value throws(OperatorError) in
                try ParsedFCM(value)
            }
            parsed[app] = ParsedCredentials(contents: contents, apns: apns, fcm: fcm)
        }
        guard problems.isEmpty else { throw OperatorError(problems.joined(separator: "\n")) }
        return parsed
    }

    private static func read<Contents, Parsed>(
        _ contents: Contents?, _ path: String, _ problems: inout [String],
        _ read: (Contents) throws(OperatorError) -> Parsed
    ) -> Parsed? {
        guard let contents else { return nil }
        do throws(OperatorError) {
            return try read(contents)
        } catch {
            problems.append("\(path): \(error.description)")
            return nil
        }
    }
}
