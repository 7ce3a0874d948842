package import CampanileCore

/// The pushes of one app to one provider. They share credentials and the provider's state; a lane that stands still holds up no
/// other.
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

/// The reason why a lane doesn't run.
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
    func sentence(_ lane: Lane) -> String {
        let name = lane.provider.name
        let reason = reason.hasSuffix(".") ? String(reason.dropLast()) : reason
        return switch kind {
        case .outage: "\(name) doesn't take the pushes of the app \(lane.app) at the moment: \(reason)."
        case .parked: "\(name) refuses the pushes of the app \(lane.app); they wait until the cause is fixed: \(reason)."
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
