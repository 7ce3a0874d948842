import CampanileCore
import Crypto

/// The cursors of a list that looks through the deliveries of all apps: the last one that was looked at may be another app's, whose
/// ids are no business of whoever goes on from there. So they are encrypted, and authenticated with the app that they are for.
struct SealedCursors: Sendable {
    private let key: SymmetricKey

    /// - Parameter secret: the database's own 32 bytes. What else is made with them has another key.
    init(secret: [UInt8]) {
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret), info: Array("campanile delivery cursor".utf8), outputByteCount: 32)
    }

    func text(_ delivery: DeliveryKey, app: String) throws -> String {
        let device = withUnsafeBytes(of: delivery.device.rawValue.bigEndian) { [UInt8]($0) }
        let sealed = try ChaChaPoly.seal(delivery.notification.bytes + device, using: key, authenticating: Array(app.utf8))
        return Base64URL.encode(sealed.combined)
    }

    /// - Returns: nil for what isn't a cursor of this server's for the app.
    func delivery(_ text: String, app: String) -> DeliveryKey? {
        guard let bytes = Base64URL.decode(text.utf8), let sealed = try? ChaChaPoly.SealedBox(combined: bytes),
            let opened = try? ChaChaPoly.open(sealed, using: key, authenticating: Array(app.utf8)), opened.count == 24,
            let notification = UUIDv7(bytes: Array(opened.prefix(16)))
        else { return nil }
        let device = opened.suffix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        return DeliveryKey(notification: notification, device: DeviceID(device))
    }
}
