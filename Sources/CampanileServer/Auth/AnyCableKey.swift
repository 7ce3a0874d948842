import CampanileCore
import Crypto

extension Configuration {
    /// The keys under which AnyCable's gem broadcasts when it is given a secret and no key: hexadecimal HMAC-SHA256 of the secret over a
    /// fixed text. (AnyCable, "Broadcast adapters", HTTP.)
    var anyCableKeys: [(app: String, key: Secret)] {
        let secrets =
            [(AppName.standard, cable.keys.anyCableSecret)]
            + apps.sorted { $0.key < $1.key }.map { ($0.key, $0.value.cable.anyCableSecret) }
        return secrets.compactMap { app, secret in
            secret.map { (app: app, key: Self.anyCableKey(of: $0)) }
        }
    }

    private static func anyCableKey(of secret: Secret) -> Secret {
        let key = SymmetricKey(data: Array(secret.exposed.utf8))
        return Secret(Hex.encode(HMAC<SHA256>.authenticationCode(for: Array("broadcast-cable".utf8), using: key)))
    }
}
