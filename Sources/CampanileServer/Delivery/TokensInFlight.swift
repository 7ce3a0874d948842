import CampanileCore
import Push

/// The device tokens to which this process has a push in flight. Firebase's token and the installation's ID with which it begins are one.
///
/// In the database a device has one push in flight at most. But a token that is deleted and registered again is another device there,
/// while the push to the first is still on its way, and might arrive after a newer one.
struct TokensInFlight: Sendable {
    private struct Token: Hashable {
        let app: String
        let token: String

        init(_ push: ClaimedPush) {
            app = push.message.app
            let device = push.message.device
            token = device.provider == .fcm ? String(device.token.prefix { $0 != ":" }) : device.token
        }
    }

    /// For each, the pushes that were claimed meanwhile.
    private var held: [Token: [ClaimedPush]] = [:]

    /// - Returns: false when the push may not go, because another to its token is in flight. It is kept until that one ends.
    mutating func begin(_ push: ClaimedPush) -> Bool {
        let token = Token(push)
        guard held[token] != nil else {
            held[token] = []
            return true
        }
        held[token]?.append(push)
        return false
    }

    /// - Returns: what was claimed while the push was in flight.
    mutating func end(_ push: ClaimedPush) -> [ClaimedPush] {
        held.removeValue(forKey: Token(push)) ?? []
    }
}
