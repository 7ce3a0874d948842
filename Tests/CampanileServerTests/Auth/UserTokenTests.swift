import CampanileCore
import Crypto
import Foundation
import JWTKit
import Testing

@testable import CampanileServer

/// The traps of JSON Web Tokens: each refused, with the reason.
@Suite struct UserTokenTests {
    private static let secret = Secret("0123456789abcdef0123456789abcdef")
    private let now = Timestamp(milliseconds: 1_795_000_000_000)

    private func verifier(issuer: String? = nil, audience: String? = nil) async -> UserTokenVerifier {
        await UserTokenVerifier(secret: UserTokenTests.secret, issuer: issuer, audience: audience)
    }

    /// A token signed by hand, so that its header and claims can be wrong in any way.
    private func token(
        header: String = #"{"alg":"HS256","typ":"JWT"}"#, claims: String = #"{"sub":"alice","exp":1795000100}"#,
        secret: Secret = secret
    ) -> [UInt8] {
        let signed = Base64URL.encode(header.utf8) + "." + Base64URL.encode(claims.utf8)
        let code = HMAC<SHA256>.authenticationCode(
            for: Array(signed.utf8), using: SymmetricKey(data: Array(secret.exposed.utf8)))
        return Array((signed + "." + Base64URL.encode(code)).utf8)
    }

    private func refusal(_ verifier: UserTokenVerifier, _ token: [UInt8]) async -> String? {
        do {
            _ = try await verifier.verify(token, now: now)
            return nil
        } catch let error as Mistake {
            return error.sentence
        } catch {
            return "\(error)"
        }
    }

    @Test("a token with sub and exp is accepted, with its app")
    func accepted() async throws {
        let token = token(claims: #"{"sub":"alice","exp":1795000100,"app":"mail"}"#)
        let verified = try await verifier().verify(token, now: now)
        #expect((verified.userID, verified.app, verified.life.expiresAt.milliseconds) == ("alice", "mail", 1_795_000_100_000))
    }

    @Test(
        "sub, exp and a sane app are required",
        arguments: [
            #"{"exp":1795000100}"#, #"{"sub":"alice"}"#, #"{"sub":"","exp":1795000100}"#, #"{"sub":7,"exp":1795000100}"#,
            #"{"sub":"alice","exp":"soon"}"#, #"{"sub":"alice","exp":1e300}"#, #"{"sub":"a\u0000b","exp":1795000100}"#,
            #"{"sub":"alice","exp":1795000100,"app":""}"#, #"{"sub":"alice","exp":1795000100,"app":"a b"}"#, "[]", "{",
        ])
    func claims(_ claims: String) async {
        #expect(await refusal(verifier(), token(claims: claims)) != nil)
    }

    @Test("an expired token and one that is not valid yet are refused, to the millisecond")
    func times() async {
        #expect(await refusal(verifier(), token(claims: #"{"sub":"a","exp":1795000000}"#)) == "The token has expired.")
        #expect(await refusal(verifier(), token(claims: #"{"sub":"a","exp":1795000000.001}"#)) == nil)
        #expect(
            await refusal(verifier(), token(claims: #"{"sub":"a","exp":1795000100,"nbf":1795000001}"#))
                == "The token is not valid yet.")
    }

    @Test(
        "the header's alg must be HS256 with a secret: none and others are refused",
        arguments: [
            #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":"HS512"}"#, #"{"alg":"RS256","kid":"k"}"#, #"{"typ":"JWT"}"#,
            #"{"alg":"HS256","crit":["exp"]}"#, #"{"alg":null}"#, "[]",
        ])
    func algorithms(_ header: String) async {
        #expect(await refusal(verifier(), token(header: header)) != nil)
    }

    @Test("another secret's signature, a missing and a cut one are refused")
    func signatures() async {
        let other = token(secret: Secret("ffffffffffffffffffffffffffffffff"))
        #expect(await refusal(verifier(), other) == "The token's signature is not valid.")
        let good = token()
        let bare = Array(good[...good.lastIndex(of: UInt8(ascii: "."))!])
        #expect(await refusal(verifier(), bare) != nil)
        #expect(await refusal(verifier(), Array(good.dropLast(2))) != nil)
        #expect(await refusal(verifier(), Array("a.b".utf8)) != nil)
    }

    @Test("issuer and audience must be the configured ones, if any are")
    func issuerAndAudience() async {
        let strict = await verifier(issuer: "https://id.example", audience: "campanile")
        #expect(await refusal(strict, token()) == "The token has another issuer.")
        let issuer = #"{"sub":"a","exp":1795000100,"iss":"https://id.example"}"#
        #expect(await refusal(strict, token(claims: issuer)) == "The token is for another audience.")
        let both = #"{"sub":"a","exp":1795000100,"iss":"https://id.example","aud":["x","campanile"]}"#
        #expect(await refusal(strict, token(claims: both)) == nil)
    }

    @Test(
        "an aud that names nobody is another audience, and any is ignored where none is configured",
        arguments: [
            #"[]"#, #""""#, #"["x"]"#,
        ])
    func strangeAudience(_ audience: String) async {
        let token = token(claims: #"{"sub":"a","exp":1795000100,"aud":\#(audience)}"#)
        #expect(await refusal(verifier(audience: "campanile"), token) == "The token is for another audience.")
        #expect(await refusal(verifier(), token) == nil)
    }

    @Test(
        "an aud that is no text and no list of texts is malformed", arguments: ["7", "[7]", "{}", "[[]]", #"["a",null]"#, "true"])
    func malformedAudience(_ audience: String) async {
        let token = token(claims: #"{"sub":"a","exp":1795000100,"aud":\#(audience)}"#)
        #expect(await refusal(verifier(), token) != nil)
    }

    @Test("a claim or a header parameter that stands twice is refused: readers disagree which one counts")
    func repeated() async {
        let sentence = "The token's claims are not valid JSON: an object has a key twice."
        #expect(await refusal(verifier(), token(claims: #"{"sub":"a","exp":1795000100,"sub":"b"}"#)) == sentence)
        #expect(await refusal(verifier(), token(claims: #"{"sub":"a","exp":1795000100, "s\u0075b" : "b"}"#)) == sentence)
        #expect(await refusal(verifier(), token(header: #"{"alg":"HS256","alg":"HS256"}"#)) != nil)
    }

    /// The texts that Foundation's parser takes: RFC 7519 section 4 wants a JSON object, and two readers must not differ about
    /// it.
    @Test(
        "claims, a header and a key set are read as requests are: what isn't JSON is refused",
        arguments: [
            #"{"sub":"alice","exp":1795000100,}"#, #"{"sub":"alice","exp":1795000100,"roles":["a",]}"#,
            #"{"sub":"alice","exp":1795000100,"other":{"x":1,"x":2}}"#, #"{"sub":"alice","exp":1795000100,"n":01}"#,
            #"{"sub":"alice","exp":1795000100,"n":1e999}"#, #"{"sub":"alice","exp":1795000100,"half":"\ud800"}"#,
            #"{"sub":"alice","exp":1795000100,"deep":\#(String(repeating: "[", count: 40) + String(repeating: "]", count: 40))}"#,
            "\u{FEFF}" + #"{"sub":"alice","exp":1795000100}"#, #"{"sub":"alice","exp":1795000100} {}"#, "null", #""alice""#,
        ])
    func strictJSON(_ text: String) async throws {
        #expect(await refusal(verifier(), token(claims: text))?.hasPrefix("The token") == true)
        let header = text.replacing(#""sub":"alice","exp":1795000100"#, with: #""alg":"HS256","typ":"JWT""#)
        #expect(await refusal(verifier(), token(header: header))?.hasPrefix("The token") == true)
    }

    @Test("an optional claim that is null is one that isn't there")
    func nullClaims() async {
        let claims = #"{"sub":"a","exp":1795000100,"iat":null,"nbf":null,"iss":null,"aud":null,"app":null}"#
        #expect(await refusal(verifier(), token(claims: claims)) == nil)
        #expect(await refusal(verifier(issuer: "me"), token(claims: claims)) == "The token has another issuer.")
        #expect(await refusal(verifier(audience: "us"), token(claims: claims)) == "The token is for another audience.")
    }

    @Test(
        "what stands in other claims is nobody's business here",
        arguments: [
            #"{"sub":"inside"}"#, #""sub""#, #"["sub","sub",":"]"#, #""a\"sub\":""#, "1e300", "-0.5", "null",
            "{" + (0..<200).map { #""k\#($0)":[]"# }.joined(separator: ",") + "}",
            String(repeating: "[", count: 30) + String(repeating: "]", count: 30),
        ])
    func otherClaims(_ value: String) async {
        #expect(await refusal(verifier(), token(claims: #"{"other":\#(value),"sub":"a","exp":1795000100}"#)) == nil)
    }

    @Test("base64 with padding is no JWT (RFC 7515 section 2)")
    func padding() async {
        #expect(await refusal(verifier(), token() + [UInt8(ascii: "=")]) != nil)
    }
}

/// The key set: the key is chosen by us, never by the token.
@Suite struct KeySetTests {
    private let now = Timestamp(milliseconds: 1_795_000_000_000)
    private let first = ES256PrivateKey()
    private let second = ES256PrivateKey()

    private func jwk(_ key: ES256PrivateKey, kid: String?, algorithm: String? = "ES256") -> String {
        let parameters = key.parameters
        let kid = kid.map { #","kid":"\#($0)""# } ?? ""
        let algorithm = algorithm.map { #","alg":"\#($0)""# } ?? ""
        return
            #"{"kty":"EC","crv":"P-256","x":"\#(base64URL(parameters?.x))","y":"\#(base64URL(parameters?.y))"\#(kid)\#(algorithm)}"#
    }

    private func base64URL(_ text: String?) -> String {
        (text ?? "").replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private func set(_ keys: String...) -> [UInt8] { Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8) }

    private struct Claims: JWTPayload {
        var sub = "alice"
        var exp = 1_795_000_100

        func verify(using algorithm: some JWTAlgorithm) {}
    }

    private func token(_ key: ES256PrivateKey, kid: String?) async throws -> [UInt8] {
        let keys = JWTKeyCollection()
        await keys.add(ecdsa: key)
        var header = JWTHeader()
        header.kid = kid
        return Array(try await keys.sign(Claims(), header: header).utf8)
    }

    private func refusal(_ verifier: UserTokenVerifier, _ token: [UInt8]) async -> String? {
        do {
            _ = try await verifier.verify(token, now: now)
            return nil
        } catch {
            return (error as? Mistake)?.sentence ?? "\(error)"
        }
    }

    @Test("a token is verified with the key that its kid names")
    func kid() async throws {
        let verifier = try await UserTokenVerifier(
            keySet: set(jwk(first, kid: "one"), jwk(second, kid: "two")), issuer: nil, audience: nil)
        #expect(await refusal(verifier, try await token(first, kid: "one")) == nil)
        #expect(await refusal(verifier, try await token(second, kid: "two")) == nil)
        #expect(await refusal(verifier, try await token(first, kid: "two")) == "The token's signature is not valid.")
    }

    @Test("an unknown kid is refused, also when the first key would verify it; so is none")
    func unknownKid() async throws {
        let verifier = try await UserTokenVerifier(keySet: set(jwk(first, kid: "one")), issuer: nil, audience: nil)
        #expect(await refusal(verifier, try await token(first, kid: "other")) == "The token's kid is not known.")
        #expect(await refusal(verifier, try await token(first, kid: nil)) == "The token's kid is not known.")
    }

    @Test("a public key is never taken for an HS256 secret, and the header's alg must be the key's")
    func confusion() async throws {
        let verifier = try await UserTokenVerifier(keySet: set(jwk(first, kid: "one")), issuer: nil, audience: nil)
        let signed =
            Base64URL.encode(#"{"alg":"HS256","kid":"one"}"#.utf8) + "."
            + Base64URL.encode(#"{"sub":"alice","exp":1795000100}"#.utf8)
        let code = HMAC<SHA256>.authenticationCode(
            for: Array(signed.utf8), using: SymmetricKey(data: Data(first.publicKey.pemRepresentation.utf8)))
        let token = Array((signed + "." + Base64URL.encode(code)).utf8)
        #expect(await refusal(verifier, token) == "The token's alg is not its key's.")
    }

    @Test("a key set whose keys lack kid or alg, repeat a kid, or are of another kind is refused at the start")
    func badSets() async {
        let sets = [
            set(jwk(first, kid: nil)), set(jwk(first, kid: "one", algorithm: nil)),
            set(jwk(first, kid: "one", algorithm: "ES384")), set(jwk(first, kid: "one"), jwk(second, kid: "one")), set(),
            Array("{}".utf8), Array(#"{"keys":[{"kty":"oct","k":"AAAA","kid":"one","alg":"HS256"}]}"#.utf8),
            // What isn't JSON, or may be read in two ways.
            Array(#"{"keys":[\#(jwk(first, kid: "one"))],}"#.utf8), Array(#"{"keys":[\#(jwk(first, kid: "one")),]}"#.utf8),
            Array(#"{"keys":[\#(jwk(first, kid: "one"))],"keys":[\#(jwk(second, kid: "one"))]}"#.utf8),
        ]
        for set in sets {
            await #expect(throws: OperatorError.self) {
                try await UserTokenVerifier(keySet: set, issuer: nil, audience: nil)
            }
        }
    }
}
