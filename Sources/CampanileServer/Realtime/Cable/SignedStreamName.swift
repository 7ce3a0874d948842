import CampanileCore
import Crypto
import CryptoExtras
import FoundationEssentials

/// The name of a stream under a signature that a Rails application shares with us, as turbo-rails writes it: the name as
/// a JSON string, in Base64, then `--` and the HMAC-SHA256 of that Base64 text in hexadecimal.
///
/// The signature is the only authority and never expires: whoever holds such a text may listen to that stream until the
/// key is changed.
enum SignedStreamName {
    /// The key that stream names are signed with.
    struct Key: Sendable {
        /// The setting that it comes from.
        let setting: String
        /// The keys that an application may sign with; the first is the one that the server uses.
        fileprivate let candidates: [SymmetricKey]

        /// Turbo's `signed_stream_verifier_key`, the raw bytes of the text.
        init(_ key: some Sequence<UInt8>, setting: String = "cable.signed_stream_key") {
            self.setting = setting
            candidates = [SymmetricKey(data: Array(key))]
        }

        /// The key that turbo-rails derives from an application's `secret_key_base` when none is set: PBKDF2 (RFC 8018 section
        /// 5.2), 1,000 iterations, 64 bytes, with HMAC-SHA256, which is Rails' default since 7.0, or with HMAC-SHA1, its default
        /// before and so that of applications which are older and were updated (`key_generator_hash_digest_class`).
        init(secretKeyBase: String, setting: String = "cable.secret_key_base") throws {
            self.setting = setting
            candidates = try [KDF.Insecure.PBKDF2.HashFunction.sha256, .insecureSHA1].map { hash in
                try KDF.Insecure.PBKDF2.deriveKey(
                    from: Array(secretKeyBase.utf8), salt: Array("turbo/signed_stream_verifier_key".utf8), using: hash,
                    outputByteCount: 64, unsafeUncheckedRounds: 1_000)
            }
        }

        /// For a test, which compares them with what Rails derives.
        var bytes: [[UInt8]] { candidates.map { $0.withUnsafeBytes { Array($0) } } }
    }

    /// The name with its signature, byte for byte what Rails' `MessageVerifier` generates.
    static func sign(_ name: String, key: Key) -> String { signatures(of: name, key: key)[0] }

    /// Signs the name with everything that the application may have made of the key; the first is the one to use.
    static func signatures(of name: String, key: Key) -> [String] {
        // turbo-rails gives its verifier Ruby's own JSON, which escapes less than Rails' encoder does.
        let payload = Data(JSONValue.string(name).text).base64EncodedString()
        return key.candidates.map { candidate in
            payload + "--" + Hex.encode(HMAC<SHA256>.authenticationCode(for: Array(payload.utf8), using: candidate))
        }
    }

    /// The name, if the signature is right. The time taken says nothing about how right a wrong one was.
    static func verify(_ signed: String, key: Key) -> String? {
        let bytes = Array(signed.utf8)
        let codeLength = SHA256.byteCount * 2
        guard bytes.count > codeLength + 2, bytes[(bytes.count - codeLength - 2)...].starts(with: "--".utf8),
            let code = Hex.decode(bytes.suffix(codeLength)),
            // Lower case only: Rails compares the text.
            Hex.encode(code).utf8.elementsEqual(bytes.suffix(codeLength))
        else { return nil }
        let payload = bytes.dropLast(codeLength + 2)
        let isSigned = key.candidates.contains {
            HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: payload, using: $0)
        }
        guard isSigned, let json = fromBase64(payload), case .string(let name)? = try? JSONValue(parsing: json)
        else { return nil }
        return name
    }

    /// Either alphabet, with padding or without: newer versions of Rails can be set to sign in the URL-safe form.
    private static func fromBase64(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var text = text
        let padding = text.reversed().prefix { $0 == UInt8(ascii: "=") }.count
        guard padding == 0 || (padding <= 2 && text.count % 4 == 0) else { return nil }
        text.removeLast(padding)
        let isStandard = text.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }
        let isURLSafe = text.contains { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        guard !isStandard || !isURLSafe else { return nil }
        let urlSafe = text.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return Base64URL.decode(urlSafe)
    }
}
