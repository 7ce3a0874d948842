import CampanileCore
import HTTPEngine

/// `/device_tokens` and `/device_tokens/{token}`.
struct DeviceTokenResource: Sendable {
    let world: World
    let registry: DeviceRegistry

    func register(_ request: Request, _ user: User) throws -> Answer {
        let device = try DeviceToken(from: JSONObject(of: request), now: world.now())
        return .later {
            let (registered, isNew) = try await registry.register(device, user)
            return .json(isNew ? 201 : 200, DeviceTokenResource.json(registered))
        }
    }

    func list(_ request: Request, _ user: User) throws -> Answer {
        try registry.database.answer { reading in
            let devices = try registry.list(user, in: reading)
            return .json(200, .object([.init("device_tokens", .array(devices.map(DeviceTokenResource.json)))]))
        }
    }

    func delete(_ request: Request, _ user: User) throws -> Answer {
        guard let token = request.parameter(0) else { throw ClientError.notFound }
        return .later {
            try await registry.delete(token, user)
            return Response(status: 204)
        }
    }

    private static func json(_ device: DeviceToken) -> JSONValue {
        .object([
            .init("token", .string(device.token)), .init("platform", .string(device.platform.rawValue)),
            .init("provider", .string(device.provider.rawValue)), .init("kind", .string(device.kind.rawValue)),
            .init("environment", .string(device.environment.rawValue)),
            .init("app_version", device.appVersion.map { .string($0) } ?? .null),
            .init("locale", device.locale.map { .string($0) } ?? .null),
            .init("last_registered_at", .string(device.lastRegisteredAt.description)),
        ])
    }
}

extension DeviceToken {
    /// Parses a registration. Ignores unknown keys, because a newer app may send them.
    /// - Throws: `ClientError` with every mistake.
    init(from object: JSONObject, now: Timestamp) throws {
        var object = object
        let token = object.required(object.string("token"), "token")
        let platform = object.required(object.choice("platform", DevicePlatform.self), "platform")
        let provider = object.choice("provider", DeviceProvider.self)
        let kind = object.choice("kind", DeviceTokenKind.self) ?? .token
        let environment = object.choice("environment", DeviceEnvironment.self)
        let appVersion = object.string("app_version", maxBytes: Limits.appVersionBytes)
        let locale = object.string("locale", maxBytes: Limits.localeBytes)
        if let token { DeviceToken.check(token, kind, platform, provider, &object) }
        if platform == .android, provider == .apns {
            object.fail("provider", .invalid, "provider must be fcm for an Android device.")
        }
        if kind == .fid, provider == .apns || (provider == nil && platform == .ios) {
            object.fail("kind", .invalid, "kind must be token with the provider apns: only Firebase knows installation IDs.")
        }
        try object.throwIfInvalid()
        guard let token, let platform else { throw ClientError(.internalError) }
        let resolved = provider ?? DeviceProvider(defaultFor: platform)
        self.init(
            token: DeviceToken.normalized(token, provider: resolved), kind: kind,
            platform: platform, provider: resolved, environment: environment ?? .production, appVersion: appVersion,
            locale: locale, lastRegisteredAt: now)
    }

    /// - Parameter platform: nil if it is wrong itself; then the token must be what any platform's is.
    private static func check(
        _ token: String, _ kind: DeviceTokenKind, _ platform: DevicePlatform?, _ provider: DeviceProvider?,
        _ object: inout JSONObject
    ) {
        if kind == .fid {
            if !Limits.installationIDBytes.contains(token.utf8.count) || !token.utf8.allSatisfy(Base64URL.isDigit) {
                object.fail("token", .invalid, "token must be a Firebase Installation ID: 1 to 64 letters, digits, - and _.")
            }
        } else if platform == .ios, provider != .fcm {
            let isHex = token.utf8.allSatisfy { Hex.value($0) != nil }
            if !isHex || !Limits.iosTokenHexDigits.contains(token.utf8.count) {
                object.fail("token", .invalid, "token must be APNs' device token as 1 to 400 hexadecimal digits.")
            }
        } else if !Limits.androidTokenBytes.contains(token.utf8.count)
            || !token.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        {
            object.fail("token", .invalid, "token must be 1 to 1024 printable ASCII characters without spaces.")
        }
    }
}
