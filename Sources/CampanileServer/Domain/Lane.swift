package import CampanileCore

/// The pushes of one app to one provider: they share credentials. It has parts, each of which stops and goes on by itself.
package struct Lane: Hashable, Sendable {
    package let app: String
    package let provider: DeviceProvider

    package init(app: String, provider: DeviceProvider) {
        self.app = app
        self.provider = provider
    }

    /// The lanes of a provider that nobody tells apart, because there are too many. No app's name has parentheses.
    static func others(_ provider: DeviceProvider) -> Lane { Lane(app: "(other)", provider: provider) }
}

extension Lane: Comparable {
    package static func < (left: Lane, right: Lane) -> Bool {
        (left.app, left.provider.rawValue) < (right.app, right.provider.rawValue)
    }
}

/// The pushes of a lane to the devices of a platform and an environment, which its provider serves or refuses together. A key of Apple's
/// may serve one environment alone, and FCM needs Apple's credentials for iOS only: what is wrong for these devices holds up no others.
package struct LanePart: Hashable, Sendable {
    package let lane: Lane
    package let platform: DevicePlatform
    package let environment: DeviceEnvironment

    package init(_ lane: Lane, _ platform: DevicePlatform, _ environment: DeviceEnvironment) {
        self.lane = lane
        self.platform = platform
        self.environment = environment
    }

    init(app: String, _ device: PushDevice) {
        self.init(Lane(app: app, provider: device.provider), device.platform, device.environment)
    }

    /// The devices, as an operator reads it.
    var devices: String { "\(environment.rawValue) \(platform == .ios ? "iOS" : "Android") devices" }
}

extension LanePart: Comparable {
    package static func < (left: LanePart, right: LanePart) -> Bool {
        (left.lane, left.platform.rawValue, left.environment.rawValue)
            < (right.lane, right.platform.rawValue, right.environment.rawValue)
    }
}

/// The reason why a part of a lane doesn't run.
struct LaneCondition: Sendable, Equatable {
    enum Kind: String, CaseIterable, Sendable {
        /// The provider can't at the moment; a push now and then finds out when it can again.
        case outage
        /// The app's configuration is wrong: nothing can succeed until somebody mends it.
        case parked
    }

    let kind: Kind
    /// The provider's word or ours, fit for an operator.
    let reason: String
    let since: Timestamp

    /// A sentence for `/readyz`, the log and `campanile doctor`.
    func sentence(_ part: LanePart) -> String {
        let (name, app, devices) = (part.lane.provider.name, part.lane.app, part.devices)
        let reason = reason.hasSuffix(".") ? String(reason.dropLast()) : reason
        return switch kind {
        case .outage: "\(name) doesn't take the pushes of the app \(app) to \(devices) at the moment: \(reason)."
        case .parked: "\(name) refuses the pushes of the app \(app) to \(devices); they wait until the cause is fixed: \(reason)."
        }
    }
}

extension DeviceProvider {
    /// As an operator reads it.
    var name: String {
        switch self {
        case .apns: "APNs"
        case .fcm: "FCM"
        }
    }
}
