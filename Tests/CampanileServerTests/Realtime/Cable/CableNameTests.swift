import CampanileCore
import Foundation
import Logging
import Testing

@testable import CampanileServer

@Suite struct SignedStreamNameTests {
    /// Signed by Rails' own MessageVerifier.
    static let vectors: [(name: String, signed: String)] = [
        (
            "notifications/17",
            "Im5vdGlmaWNhdGlvbnMvMTci--05577ac2d36b12b90805c977b8cc0141521f14a0b4e5a0df4a1ac0fc4165370a"
        ),
        ("ünïcode/é", "IsO8bsOvY29kZS/DqSI=--db43839ad9e38bf183d1d82eeaef49ac0242d040a65bdeb5e6d1c33cfa571e51"),
    ]
    static let derivedVector = (
        name: "Z2lkOi8vYXBwL1VzZXIvMQ:notifications",
        signed:
            "IloybGtPaTh2WVhCd0wxVnpaWEl2TVE6bm90aWZpY2F0aW9ucyI=--6647053a4169c3da4af91fe9b2a758b615f11ab39820434d4246ccffcc701cf7"
    )
    static let key = SignedStreamName.Key("secret".utf8)

    @Test("signs and verifies as Rails does", arguments: vectors)
    func vector(_ vector: (name: String, signed: String)) {
        #expect(SignedStreamName.sign(vector.name, key: Self.key) == vector.signed)
        #expect(SignedStreamName.verify(vector.signed, key: Self.key) == vector.name)
    }

    @Test func derivesTheKeyFromSecretKeyBaseAsRailsDoes() throws {
        let key = try SignedStreamName.Key(secretKeyBase: String(repeating: "a", count: 128))
        let hex = key.bytes.map { $0.map { String($0 >> 4, radix: 16) + String($0 & 0xF, radix: 16) }.joined() }
        // With SHA-256, and with SHA-1, as before Rails 7.0.
        #expect(
            hex == [
                "994f7c7f3c3e844dc6ce2a3e5f239775b0849c3fad3649863e5c6b0a021ef9cf"
                    + "8a7c2ae38498e5c63355eeda8c9cd907e55a70b308b25ca30781569319b7216e",
                "54973245c3b927a48d315b41ebf7ecb6731e4560d8943e64d30061f1a11690a9"
                    + "850a601c5831ddd9bf6c5ff95f731a139b4f37a78ae49bab748edda5e3248281",
            ])
        #expect(SignedStreamName.sign(Self.derivedVector.name, key: key) == Self.derivedVector.signed)
        #expect(SignedStreamName.verify(Self.derivedVector.signed, key: key) == Self.derivedVector.name)
    }

    @Test func verifiesWhatAnApplicationOlderThanRails7Signs() throws {
        let base = String(repeating: "a", count: 128)
        let key = try SignedStreamName.Key(secretKeyBase: base)
        // Signed with the older of the two keys above by Python's hmac.
        let signed =
            "Im5vdGlmaWNhdGlvbnM6MTci--e4f5ca28c6c7a52ccbadf411186fd7598817782e1d8bd4377e6a4ef0709025f0"
        #expect(SignedStreamName.verify(signed, key: key) == "notifications:17")
        #expect(SignedStreamName.signatures(of: "notifications:17", key: key).last == signed)
        #expect(SignedStreamName.sign("notifications:17", key: key) != signed, "ours are as Rails signs today")
        #expect(SignedStreamName.verify(signed, key: try SignedStreamName.Key(secretKeyBase: base + "a")) == nil)
    }

    @Test(
        "the doctor signs a name that is of no user's stream, whatever the pattern",
        arguments: [
            ("notifications:{user_id}", "campanile:doctor"), ("{user_id}", "campanile:doctor\\u0001"),
            ("campanile:{user_id}", "campanile:doctor\\u0001"), ("{app}:{user_id}", "campanile:doctor\\u0001"),
        ])
    func doctor(_ pattern: String, _ written: String) async throws {
        var configuration = Configuration()
        configuration.database = TemporaryFolder().database
        configuration.cable.keys.signedStreamKey = Secret("secret")
        configuration.cable.streamName = pattern
        let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        func sentence() async -> String {
            await Doctor(configuration, world: .live, logger: logger).examine().first { $0.subject == "cable" }?.sentence ?? ""
        }
        let name = written.replacing("\\u0001", with: "\u{1}")
        let signed = SignedStreamName.sign(name, key: Self.key)
        let expected =
            "With the key of cable.signed_stream_key the name \"\(written)\" is signed \(signed). To compare, run in the"
            + " Rails application: bin/rails runner 'puts Turbo::StreamsChannel.signed_stream_name(\"\(written)\")'."
        #expect(await sentence().hasPrefix(expected))
        #expect(try StreamNamePattern(pattern).target(of: name) == nil)
        configuration.cable.keys.signedStreamKey = nil
        configuration.cable.keys.secretKeyBase = Secret(String(repeating: "a", count: 128))
        let key = try SignedStreamName.Key(secretKeyBase: String(repeating: "a", count: 128))
        for signed in SignedStreamName.signatures(of: name, key: key) { #expect(await sentence().contains(signed)) }
        configuration.cable.keys.secretKeyBase = nil
        #expect(await sentence() == "Without cable.signed_stream_key or cable.secret_key_base no signed stream name is accepted.")
    }

    @Test func refusesEveryOtherKeyAndEveryChangedByte() {
        let signed = Self.vectors[0].signed
        #expect(SignedStreamName.verify(signed, key: SignedStreamName.Key("Secret".utf8)) == nil)
        for index in signed.utf8.indices {
            var bytes = Array(signed.utf8)
            let position = signed.utf8.distance(from: signed.utf8.startIndex, to: index)
            bytes[position] = bytes[position] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(SignedStreamName.verify(String(decoding: bytes, as: UTF8.self), key: Self.key) == nil, "byte \(position)")
        }
    }

    @Test(
        "refuses what is no signed name",
        arguments: [
            "", "--", "Im5vdGlmaWNhdGlvbnMvMTci", "Im5vdGlmaWNhdGlvbnMvMTci--", "Im5vdGlmaWNhdGlvbnMvMTci--0557",
            "--05577ac2d36b12b90805c977b8cc0141521f14a0b4e5a0df4a1ac0fc4165370a",
            "Im5vdGlmaWNhdGlvbnMvMTci--05577AC2D36B12B90805C977B8CC0141521F14A0B4E5A0DF4A1AC0FC4165370A",
            "Im5vdGlmaWNhdGlvbnMvMTci--05577ac2d36b12b90805c977b8cc0141521f14a0b4e5a0df4a1ac0fc4165370a ",
        ])
    func malformed(_ signed: String) {
        #expect(SignedStreamName.verify(signed, key: Self.key) == nil)
    }

    /// A right signature over something else than a name proves nothing. Signed with the key `secret` by Python's hmac.
    @Test(
        "refuses a signed payload that is no JSON string in Base64",
        arguments: [
            "MTc=--7a9bd74e26a98bafac0ffdbe4a237153782cd7840e0f388baa9cf3f241cebc2c",
            "WyJhIl0=--d56605968e0590fb50a90fe1197c3e0a65f919ce4960569dffabe00545eb8009",
            "****--fc0100e9d74758b96f0978e0b71957a2260df17e3e8aeecdf12b6230997a2ed5",
            "Im5v!GlmaWNhdGlvbnMvMTci--317a4efefd10f7904b2ee76a2988ccc1bd8d348f4bc2ee3bacc3b98cf09285ef",
            "Im5vdGlmaWNhdGlvbnMvMTci=--940adb735e922f012e318a740de58f11de2c07390d5fa1edcd7f64318c4c00e2",
            "Iv8i--328a7509e535f1681b480fcf98ca283b95dcc2d7946e299f720eb2b56af6e698",
            "IsO8bsOvY29kZS/D-SI--707bfe146090ac797b964fe2445b592597967a5269803692d54b21a851ebcd93",
        ])
    func otherPayloads(_ signed: String) {
        #expect(SignedStreamName.verify(signed, key: Self.key) == nil)
    }

    @Test func acceptsTheURLSafeFormsOfNewRails() {
        // "ünïcode/é" in the URL-safe alphabet, with padding and without, signed by Python's hmac.
        for signed in [
            "IsO8bsOvY29kZS_DqSI=--19859a1da60abc7ae4d4d0b3ba01d0bfbf1618b3ce3feca8b84f23705ba162ee",
            "IsO8bsOvY29kZS_DqSI--0dc5506e862b82971d8e6b86456b57fe70b6fbec1a8adbaca99a4cadab8c3ea8",
        ] {
            #expect(SignedStreamName.verify(signed, key: Self.key) == "ünïcode/é")
        }
    }

    @Test("signs a name as Rails' verifier does, whose JSON leaves <, >, & and U+2028 as they are")
    func signsAsRailsVerifierDoes() throws {
        // Of ActiveSupport's MessageVerifier with `serializer: JSON`.
        let name = "a<b>&c\u{2028}\u{7F}\u{1}\n/\\\"é"
        let signed = SignedStreamName.sign(name, key: Self.key)
        let payload = try #require(Data(base64Encoded: String(signed.prefix { $0 != "-" })))
        #expect(String(decoding: payload, as: UTF8.self) == #""a<b>&c\#u{2028}\#u{7F}\u0001\n/\\\"é""#)
        #expect(SignedStreamName.verify(signed, key: Self.key) == name)
    }

    @Test func escapesWhatRailsEscapes() {
        var bytes: [UInt8] = []
        RailsJSON.appendString("<a & b>\u{2028}\u{2029}é\"\\\n\u{1}".utf8, to: &bytes)
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #""\u003ca \u0026 b\u003e\u2028\u2029é\"\\\n\u0001""#)
    }
}

@Suite struct StreamNamePatternTests {
    @Test func namesAUsersStreamBothWays() throws {
        let pattern = try StreamNamePattern("notifications:{user_id}")
        #expect(pattern == .standard)
        #expect(pattern.name(app: "shop", userID: "17") == "notifications:17")
        #expect(pattern.target(of: "notifications:17") == .init(app: nil, userID: "17"))
        #expect(pattern.target(of: "notifications:a:b") == .init(app: nil, userID: "a:b"))
        for name in ["notifications:", "notification:17", "Notifications:17", "x", "", "notifications:\u{1}"] {
            #expect(pattern.target(of: name) == nil, "\(name)")
        }
        #expect(pattern.target(of: "notifications:" + String(repeating: "x", count: 256)) == nil)
    }

    @Test(
        "finds app and user",
        arguments: [
            "{app}:{user_id}", "{user_id}:{app}", "a/{app}/u/{user_id}/end", "{user_id}@@{app}.", "x{user_id} {app}x",
        ])
    func bothPlaces(_ text: String) throws {
        let pattern = try StreamNamePattern(text)
        for (app, userID) in [("default", "17"), ("my-shop.de_1", "a:b/u/@@ x"), ("x", ":"), ("y", "é:")] {
            let name = pattern.name(app: app, userID: userID)
            #expect(pattern.target(of: name) == .init(app: ExactText(app), userID: ExactText(userID)), "\(name)")
        }
        #expect(pattern.target(of: "17") == nil)
    }

    @Test func looksAtBytesAndNotAtCharacters() throws {
        // A combining accent after the prefix makes another character of its last letter, but not another byte.
        let pattern = try StreamNamePattern("user{user_id}")
        #expect(pattern.target(of: "user\u{301}17") == .init(app: nil, userID: "\u{301}17"))
    }

    @Test(
        "refuses what can't tell users apart",
        arguments: [
            "notifications", "{user_id}{user_id}", "{app}{user_id}", "{user_id}-{app}", "{app}.{user_id}", "{user_id}{x}",
            "{app}:{app}:{user_id}", "{app}", "{user_id", "",
        ])
    func mistakes(_ text: String) {
        #expect(throws: Mistake.self) { try StreamNamePattern(text) }
    }
}
