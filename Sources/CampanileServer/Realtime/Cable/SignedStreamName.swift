import CampanileCore
import Crypto
import CryptoExtras
#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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
        /// What the application may have made of it: the first is what we sign with.
        fileprivate let candidates: [SymmetricKey]

        /// Turbo's `signed_stream_verifier_key`, the raw bytes of the text.
        init(_ key: some Sequence<UInt8>) {
            setting = "cable.signed_stream_key"
            candidates = [SymmetricKey(data: Array(key))]
        }

        /// The key that turbo-rails derives from an application's `secret_key_base` when none is set: PBKDF2 (RFC 8018 section
        /// 5.2), 1,000 iterations, 64 bytes, with HMAC-SHA256, which is Rails' default since 7.0, or with HMAC-SHA1, its default
        /// before and so that of applications which are older and were updated (`key_generator_hash_digest_class`).
        init(secretKeyBase: String) throws {
            setting = "cable.secret_key_base"
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

    /// The same for everything that the application may have made of the key; the first is the one to use.
    static func signatures(of name: String, key: Key) -> [String] {
        var json: [UInt8] = []
        RailsJSON.appendString(name.utf8, to: &json)
        let payload = strictBase64(json)
        return key.candidates.map { candidate in
            payload + "--" + hexadecimal(HMAC<SHA256>.authenticationCode(for: Array(payload.utf8), using: candidate))
        }
    }

    /// The name, if the signature is right. The time taken says nothing about how right a wrong one was.
    static func verify(_ signed: String, key: Key) -> String? {
        let bytes = Array(signed.utf8)
        let codeLength = SHA256.byteCount * 2
        guard bytes.count > codeLength + 2, bytes[(bytes.count - codeLength - 2)...].starts(with: "--".utf8),
            let code = fromHexadecimal(bytes.suffix(codeLength))
        else { return nil }
        let payload = bytes.dropLast(codeLength + 2)
        let isSigned = key.candidates.contains {
            HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: payload, using: $0)
        }
        guard isSigned, let json = fromBase64(payload), case .string(let name)? = try? JSONValue(parsing: json)
        else { return nil }
        return name
    }

    // MARK: - Base64 and hexadecimal

    /// The standard alphabet with padding, in one line (RFC 4648 section 4).
    private static func strictBase64(_ bytes: [UInt8]) -> String {
        var text = Base64URL.encode(bytes).utf8.map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            default: byte
            }
        }
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
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
        return Base64URL.decode(String(decoding: urlSafe, as: UTF8.self))
    }

    private static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 0xF)]] }, as: UTF8.self)
    }

    /// Lower case only, as Rails compares the text.
    private static func fromHexadecimal(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for byte in text {
            let value: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if let upper = high {
                bytes.append(upper << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return high == nil ? bytes : nil
    }
}
