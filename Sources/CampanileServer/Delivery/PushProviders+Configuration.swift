import CampanileCore
import FoundationEssentials
package import Push

extension PushProviders {
    /// Takes the credentials of a configuration in place of the present ones, as `apply(_:trust:)` does.
    /// - Throws: what that throws, and `OperatorError` for a file that can't be read.
    @discardableResult
    package func apply(_ configuration: Configuration) throws -> Bool {
        try apply(configuration.pushCredentials()) { try configuration.pushTrust() }
    }

    /// The lanes that keep credentials missing in a configuration, in order.
    func kept(without configuration: Configuration) -> [Lane] {
        credentials.sorted { $0.key < $1.key }.flatMap { name, present -> [Lane] in
            let app = configuration.apps[name]
            var lanes: [Lane] = []
            if present.apns != nil, app?.apns == nil { lanes.append(Lane(app: name, provider: .apns)) }
            if present.fcm != nil, app?.fcm == nil { lanes.append(Lane(app: name, provider: .fcm)) }
            return lanes
        }
    }
}

extension Configuration {
    /// The contents of the files that the apps' settings name.
    /// - Throws: `OperatorError` for a file that can't be read.
    func pushCredentials() throws -> [String: AppPushCredentials] {
        var credentials: [String: AppPushCredentials] = [:]
        for (name, app) in apps where app.apns != nil || app.fcm != nil {
            let apns = try app.apns.map { apns in
                APNsCredentials(
                    keyPEM: String(decoding: try content(apns.keyFile), as: UTF8.self), keyID: apns.keyID,
                    teamID: apns.teamID, topic: apns.topic, url: apns.url?.absoluteString)
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
            throw OperatorError("The file \(quotedForMessage(path: path)) \(error.sentence).")
        }
    }
}

extension PayloadOptions {
    init(_ configuration: Configuration) {
        self.init(
            contentAvailable: configuration.badge.contentAvailable,
            topics: configuration.apps.compactMapValues { $0.apns?.topic },
            mutableContent: Set(configuration.apps.filter(\.value.mutableContent).keys))
    }
}
