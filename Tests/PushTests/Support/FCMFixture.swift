import CampanileCore
import Crypto
import CryptoExtras
import Foundation

@testable import Push

enum TestAccount {
    static let privateKey: _RSA.Signing.PrivateKey = {
        do { return try _RSA.Signing.PrivateKey(keySize: .bits2048) } catch { fatalError("no RSA key: \(error)") }
    }()

    static func json(_ changes: [String: JSONValue?] = [:]) -> [UInt8] {
        var members: [String: JSONValue?] = [
            "type": "service_account", "project_id": "demo-project", "private_key_id": "abc",
            "private_key": .string(privateKey.pkcs8PEMRepresentation), "client_email": "push@demo-project.example",
            "token_uri": "https://oauth2.example/token",
        ]
        members.merge(changes) { $1 }
        let kept = members.compactMap { key, value in value.map { JSONValue.Member(key, $0) } }
        return JSONValue.object(kept.sorted { $0.key < $1.key }).text
    }
}

/// Google's token endpoint and FCM as one scripted server, and a provider for them.
struct FCMFixture {
    let server: ScriptedServer
    let providers: PushProviders
    let hand: HandClock

    var provider: any PushProvider { providers.provider(app: "default", kind: .fcm) }
    var assertions: [ServedRequest] { server.requests.filter { $0.path == "/token" } }
    var messages: [ServedRequest] { server.requests.filter { $0.path != "/token" } }

    static let grant: @Sendable (ServedRequest) -> [Reaction] = { request in
        [.answer(200, #"{"access_token":"token-\#(request.number)","expires_in":3599,"token_type":"Bearer"}"#)]
    }

    static func run(
        token: @escaping ScriptedServer.Script = grant, messages: @escaping ScriptedServer.Script,
        _ test: (FCMFixture) async throws -> Void
    ) async throws {
        let server = try await ScriptedServer.start { $0.path == "/token" ? token($0) : messages($0) }
        let hand = HandClock()
        let credentials = FCMCredentials(serviceAccountJSON: TestAccount.json(), url: server.url)
        let providers = PushProviders.testing(hand, tokenStore: NoProviderTokenStore())
        try providers.applyTrusting(["default": AppPushCredentials(apns: nil, fcm: credentials)])
        let result: Result<Void, any Error>
        do {
            result = .success(try await test(FCMFixture(server: server, providers: providers, hand: hand)))
        } catch {
            result = .failure(error)
        }
        await providers.shutDown()
        await server.stop()
        try result.get()
    }

    static func message(_ kind: PushMessage.Kind = .alert(Pushes.alert())) -> PushMessage {
        Pushes.message(kind, token: "fcm-token:1", provider: .fcm, platform: .android)
    }
}

extension PushProviders {
    static func testing(_ hand: HandClock, tokenStore: any ProviderTokenStore = MemoryTokenStore()) -> PushProviders {
        PushProviders(
            sandbox: SandboxProvider(capacity: 10, options: PayloadOptions(topics: [:])),
            options: PayloadOptions(topics: [:]), tokenStore: tokenStore, world: hand.world,
            logger: silent)
    }

    /// Trusts the scripted servers.
    func applyTrusting(_ apps: [String: AppPushCredentials]) throws {
        try apply(apps) { .authorities(pem: TestAuthority.trusted.pem) }
    }
}
