import CampanileCore
import Crypto
import Foundation
import Synchronization

@testable import Push

/// A store in memory that survives its process, as the database does.
final class MemoryTokenStore: ProviderTokenStore {
    private let stored = Mutex<[String: [StoredProviderToken]]>([:])
    /// The tokens that were written, in order.
    private let log = Watched<[[StoredProviderToken]]>([])

    var writes: [[StoredProviderToken]] { log.value }
    func untilWritten(_ times: Int) async { await log.until { $0.count >= times } }

    func load(team: String) async throws -> [StoredProviderToken] { stored.withLock { $0[team] ?? [] } }

    func replace(team: String, with tokens: [StoredProviderToken]) async throws { put(tokens, of: team) }

    func put(_ tokens: [StoredProviderToken], of team: String) {
        stored.withLock { $0[team] = tokens }
        log.change { $0.append(tokens) }
    }
}

/// One process's way to the store: a killed process writes nothing any more.
final class ProcessStore: ProviderTokenStore {
    private let store: MemoryTokenStore
    private let isAlive = Mutex(true)

    init(_ store: MemoryTokenStore) { self.store = store }

    func kill() { isAlive.withLock { $0 = false } }

    func load(team: String) async throws -> [StoredProviderToken] { try await store.load(team: team) }

    func replace(team: String, with tokens: [StoredProviderToken]) async throws {
        isAlive.withLock { if $0 { store.put(tokens, of: team) } }
    }
}

enum TestKeys {
    static let team = "TEAM000001"
    static let first = P256.Signing.PrivateKey()
    static let second = P256.Signing.PrivateKey()

    static func key(_ privateKey: P256.Signing.PrivateKey = first, id: String = "KEY0000001") throws -> APNsKey {
        try APNsKey(pem: privateKey.pemRepresentation, keyID: id, teamID: team)
    }

    /// `iat` of a provider token, after its signature was checked.
    static func issuedAt(_ token: String, _ privateKey: P256.Signing.PrivateKey = first) throws -> Int64 {
        let parts = token.split(separator: ".").map(String.init)
        guard parts.count == 3, let signature = decode(parts[2]), let claims = decode(parts[1]) else { throw Bad() }
        let signed = Data("\(parts[0]).\(parts[1])".utf8)
        let isValid = privateKey.publicKey.isValidSignature(try .init(rawRepresentation: signature), for: signed)
        guard isValid else { throw Bad() }
        guard case .integer(let seconds)? = try JSONValue(parsing: Array(claims))["iat"] else { throw Bad() }
        return seconds
    }

    static func decode(_ text: String) -> Data? {
        var base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        while base64.utf8.count % 4 != 0 { base64 += "=" }
        return Data(base64Encoded: base64)
    }

    struct Bad: Error {}
}

extension APNsProviderTokens {
    func token(for key: APNsKey) async -> Grant {
        await withCheckedContinuation { continuation in token(for: key) { continuation.resume(returning: $0) } }
    }
}

enum Pushes {
    static let device = String(repeating: "a1", count: 32)

    static func alert(
        title: String = "T", body: String = "B", category: String? = nil, deepLink: String? = nil, data: String? = nil,
        collapseKey: String? = nil, expiresAt: Timestamp? = nil, payload: String? = nil,
        defaults: PayloadFields = PayloadFields(), isReadBySwipe: Bool = false
    ) -> PushAlert {
        PushAlert(
            notificationID: id(7), title: title, body: body, category: category, deepLink: deepLink, data: data,
            sound: "default", collapseKey: collapseKey, threadID: nil, expiresAt: expiresAt,
            payload: payload, defaults: defaults, isReadBySwipe: isReadBySwipe)
    }

    static func id(_ number: UInt64) -> UUIDv7 {
        UUIDv7(high: 0x0198_C0DE_0000_7000, low: 0x8000_0000_0000_0000 | number)
    }

    static func message(
        _ kind: PushMessage.Kind = .alert(alert()), id number: UInt64 = 1, token: String = device,
        kind tokenKind: DeviceTokenKind = .token, count: Int64 = 3, provider: DeviceProvider = .apns,
        platform: DevicePlatform = .ios, environment: DeviceEnvironment = .production, dismissal: Dismissal? = nil
    ) -> PushMessage {
        PushMessage(
            id: id(number), kind: kind, app: "default", userID: "u",
            device: PushDevice(
                token: token, kind: tokenKind, platform: platform, provider: provider, environment: environment),
            badge: Badge(count: count, unreadCount: count, version: 42, updatedAt: nil),
            sentAt: HandClock().now, dismissal: dismissal)
    }
}

/// APNs' two hosts as scripted servers, and a provider for them.
struct APNsFixture {
    let production: ScriptedServer
    let sandbox: ScriptedServer
    let provider: APNsProvider
    let hand: HandClock
    let store: MemoryTokenStore

    static func run(
        maxStreams: Int = 100, production: @escaping ScriptedServer.Script,
        sandbox: ScriptedServer.Script? = nil, _ test: (APNsFixture) async throws -> Void
    ) async throws {
        let first = try await ScriptedServer.start(maxStreams: maxStreams, production)
        let second = try await ScriptedServer.start(sandbox ?? { _ in [.answer(500)] })
        let network = try PushNetwork(trust: .authorities(pem: TestAuthority.trusted.pem))
        let hand = HandClock()
        let store = MemoryTokenStore()
        var limits = HTTP2Limits()
        limits.startsWithOneStream = true
        // Tests move the clock by minutes, in which a PING on its way would be one that the server stopped answering.
        limits.idlePing = .minutes(24 * 60)
        let client = { (url: String) throws in
            HTTP2Client(endpoint: try HTTP2Endpoint(url: url), limits: limits, network: network, world: hand.world)
        }
        let productionClient = try client(first.url)
        let sandboxClient = sandbox == nil ? productionClient : try client(second.url)
        let provider = APNsProvider(
            key: try TestKeys.key(),
            tokens: APNsProviderTokens(team: TestKeys.team, store: store, world: hand.world, logger: silent),
            production: productionClient, sandbox: sandboxClient,
            options: PayloadOptions(topics: ["default": "com.example.app"]), world: hand.world)
        let fixture = APNsFixture(
            production: first, sandbox: second, provider: provider, hand: hand, store: store)
        let result: Result<Void, any Error>
        do { result = .success(try await test(fixture)) } catch { result = .failure(error) }
        await productionClient.stop()
        await sandboxClient.stop()
        await first.stop()
        await second.stop()
        await network.shutDown()
        try result.get()
    }
}
