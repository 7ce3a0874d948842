import CampanileCore
import Crypto
import HTTPEngine

extension IdempotencyKey {
    /// The key of a request, if it has one: a structured field string in quotes, or the bare text that most clients send.
    /// - Parameter outboxMilliseconds: for how long a key of an outbox is remembered.
    /// - Parameter object: the request's body. A key that breaks the rules is a mistake beside those of its fields.
    init?(of request: Request, from producer: Producer, outboxMilliseconds: Int64, _ object: inout JSONObject) {
        let fields = request.headers("idempotency-key")
        guard let field = fields.first else { return nil }
        var text = field
        if text.hasPrefix("\"") {
            guard text.utf8.count >= 2, text.hasSuffix("\"") else {
                object.fail(IdempotencyKey.mistake)
                return nil
            }
            text = String(text.dropFirst().dropLast())
        }
        guard fields.count == 1, !text.isEmpty, text.utf8.count <= Limits.idempotencyKeyBytes,
            text.utf8.allSatisfy({ (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
        else {
            object.fail(IdempotencyKey.mistake)
            return nil
        }
        self.init(text: text, producer: producer.firstKeyID, fingerprint: Array(SHA256.hash(data: request.body)))
        if text.hasPrefix(IdempotencyKey.outboxPrefix) { keptMilliseconds = outboxMilliseconds }
    }

    private static var mistake: FieldError {
        FieldError(
            "Idempotency-Key", .invalid,
            "Idempotency-Key must be one string of 1 to \(Limits.idempotencyKeyBytes) printable ASCII characters.")
    }
}
