import Foundation
import Testing

@testable import CampanileServer

@Suite("Configuration: secrets stay hidden")
struct ConfigurationSecretTests {
    static let word = "open-sesame-open-sesame-open-sesame"

    /// Everything that Swift's ways of showing a value make of it.
    private func showings(_ value: Any) -> [String] {
        var dumped = ""
        dump(value, to: &dumped)
        var printed = ""
        print(value, to: &printed)
        debugPrint(value, to: &printed)
        return [dumped, printed, "\(value)", String(describing: value), String(reflecting: value)] + children(value)
    }

    private func children(_ value: Any) -> [String] {
        Mirror(reflecting: value).children.flatMap { ["\($0.value)", String(reflecting: $0.value)] + children($0.value) }
    }

    @Test("A secret doesn't show itself, alone or inside of something")
    func secret() {
        let secret = Secret(Self.word)
        let holders: [Any] = [
            secret, Optional(secret) as Any, [secret], ["a": secret], (1, secret), Result<Secret, Never>.success(secret),
        ]
        for holder in holders {
            #expect(showings(holder).allSatisfy { !$0.contains("sesame") })
        }
        #expect("\(secret)" == "(redacted)")
        #expect(secret.exposed == Self.word)
    }

    @Test("A configuration shows none of its secrets")
    func configuration() throws {
        let configuration = try Configuration.load(
            file: nil, fileIsRequired: false,
            environment: [
                "CAMPANILE_JWT_SECRET": Self.word, "CAMPANILE_CABLE_SIGNED_STREAM_KEY": Self.word,
                "CAMPANILE_METRICS_TOKEN": Self.word,
            ], flags: .init())
        #expect(configuration.jwt.secret?.exposed == Self.word)
        let shown = showings(configuration)
        #expect(shown.allSatisfy { !$0.contains("sesame") })
        #expect(shown.contains { $0.contains("(redacted)") })
    }

    @Test(
        "No report repeats a secret, however wrong it is",
        arguments: [
            "jwt: {secret: sesame}", "jwt: {secret: [sesame]}", "jwt: {secret: {a: sesame}}", "jwt: sesame",
            "jwt: {secret: \"sesame\\u0001\(word)\"}", "jwt: {secret: !x sesame}", "jwt:\n  secret: sesame\n bad",
            "jwt: {secret: 'sesame", "jwt: {secret: sesame, secret: sesame2}", "metrics: {token: 'sesame sesame sesame'}",
            "cable: {secret_key_base: sesame}", "jwt:\n\tsecret: sesame", "jwt: {secret: sesame}\n---\nx: 1",
            "jwt: {secret: \(word), jwks_file: '\(word)x'}\n\"\u{1}\"", "secret: \(word)", "jwt: {key: \(word)}",
        ])
    func reports(yaml: String) throws {
        let folder = try ConfigurationFolder()
        let report = try folder.problems(yaml)
        #expect(!report.isEmpty)
        #expect(report.allSatisfy { !$0.contains("sesame") })
    }

    @Test("No report repeats a secret from the environment")
    func environment() throws {
        let folder = try ConfigurationFolder()
        let report = try folder.problems(
            nil,
            environment: [
                "CAMPANILE_JWT_SECRET": "sesame", "CAMPANILE_METRICS_TOKEN": "sésame sésame sesame",
                "CAMPANILE_JWT_SECRETS": Self.word, "CAMPANILE_CABLE_SECRET_KEY_BASE": "\u{1}\(Self.word)",
            ])
        #expect(report.count == 4)
        #expect(report.allSatisfy { !$0.contains("sesame") })
    }

    @Test("A secret counts in bytes, not in characters")
    func bytes() throws {
        let folder = try ConfigurationFolder()
        let sixteenCharacters = String(repeating: "é", count: 16)
        let configuration = try folder.load(nil, environment: ["CAMPANILE_JWT_SECRET": sixteenCharacters])
        #expect(configuration.jwt.secret == Secret(sixteenCharacters))
        let short = String(repeating: "é", count: 15) + "e"
        #expect(
            try folder.problems(nil, environment: ["CAMPANILE_JWT_SECRET": short])
                == ["CAMPANILE_JWT_SECRET: jwt.secret must be at least 32 bytes long, and is 31"])
    }

    @Test("Secrets are equal if all their bytes are")
    func equality() {
        #expect(Secret("abc") == Secret("abc"))
        #expect(Secret("abc") != Secret("abd"))
        #expect(Secret("abc") != Secret("ab"))
        // Canonically equal as text, and still another key.
        #expect(Secret("\u{E9}") != Secret("e\u{301}"))
    }

    @Test("Two apps with one key for streams or one AnyCable secret are reported, at the later key; each with its own are none")
    func sharedCableKeys() throws {
        let folder = try ConfigurationFolder()
        let (a, b) = (Self.word, Self.word + "-b")
        let yaml = """
            cable:
              signed_stream_key: \(a)
            apps:
              one:
                cable:
                  secret_key_base: \(b)
                  anycable_secret: \(a)
              two:
                cable:
                  signed_stream_key: \(a)
                  anycable_secret: \(a)
              zwo:
                cable:
                  secret_key_base: \(b)
                  anycable_secret: \(b)
            """
        #expect(
            try folder.problems(yaml) == [
                "file:10: apps.two.cable and cable have one key for streams, which says the app: give each its own",
                "file:11: apps.two.cable and apps.one.cable have one anycable_secret, which says the app: give each its own",
                "file:14: apps.zwo.cable and apps.one.cable have one key for streams, which says the app: give each its own",
            ])
        _ = try folder.load(
            yaml.replacing("      signed_stream_key: \(a)\n      anycable_secret: \(a)", with: "      signed_stream_key: \(a)c")
                .replacing("secret_key_base: \(b)\n      anycable_secret: \(b)", with: "anycable_secret: \(b)"))
    }
}
