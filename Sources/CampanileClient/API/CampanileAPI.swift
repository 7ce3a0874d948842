public import CampanileCore
public import Foundation

/// The server's calls, for the signed-in user.
///
/// Every method throws a `ClientFailure` with a message for the user, or `CancellationError` when it was cancelled;
/// `ClientFailure(error)` is nil for the latter. Without a network, or when the server can't answer, it repeats the
/// call by `RetryPolicy` before it throws.
///
/// A call with its repetitions, a list with its pages and a stream with its connections belong to the user of their
/// first token. They end when their task is cancelled, when the user signs out (`DeviceRegistration.signOut`), and when
/// the next token is another user's.
public final class CampanileAPI: Sendable {
    /// Returns the user token (a JWT that your backend signs); nil while nobody is signed in.
    /// - Parameter refused: the token that the server has just refused, if a fresh one is needed; nil otherwise.
    public typealias UserToken = @Sendable (_ refused: String?) async throws -> String?

    public let baseURL: URL
    let userAgent: String
    let userToken: UserToken
    let transport: any HTTPTransport
    let retry: RetryPolicy
    private let device = Locked<String?>(nil)
    let departures = Locked(Departures())

    /// - Parameters:
    ///   - userAgent: must identify the app, or reading the list clears no badge: `Shop/2.1 Hotwire Native iOS`, or a
    ///     text of the server's `native_user_agents`.
    public init(
        baseURL: URL, userAgent: String, transport: any HTTPTransport = URLSessionTransport(),
        retry: RetryPolicy = RetryPolicy(), userToken: @escaping UserToken
    ) {
        self.baseURL = baseURL
        self.userAgent = userAgent
        self.transport = transport
        self.retry = retry
        self.userToken = userToken
    }

    /// This device's token. Calls send it, because the server pushes no number to a device that got it in an answer.
    /// `DeviceRegistration` sets it.
    public var deviceToken: String? {
        get { device.withLock { $0 } }
        set { device.withLock { $0 = newValue } }
    }

    // MARK: - The inbox

    /// The list as an async sequence of pages, each fetched when the loop reaches it. A native app's first page clears
    /// the badge.
    public func notifications(
        _ filter: InboxFilter = .all, category: String? = nil, pageSize: Int = 50
    ) -> InboxPages {
        InboxPages(api: self, filter: filter, category: category, pageSize: pageSize)
    }

    /// One page.
    /// - Parameters:
    ///   - cursor: `nextCursor` of the page before; nil for the first.
    ///   - isPrefetch: true if the user isn't looking at it yet: the badge stays.
    public func page(
        _ filter: InboxFilter = .all, category: String? = nil, pageSize: Int = 50, after cursor: String? = nil,
        isPrefetch: Bool = false
    ) async throws -> InboxPage {
        try await page(filter, category, pageSize, cursor, isPrefetch: isPrefetch, as: CallUser())
    }

    func page(
        _ filter: InboxFilter, _ category: String?, _ pageSize: Int, _ cursor: String?, isPrefetch: Bool = false,
        as user: CallUser
    ) async throws -> InboxPage {
        var query = ["limit": String(pageSize), "status": filter.rawValue]
        query["category"] = category
        query["cursor"] = cursor
        return try await call(
            "GET", "/notifications", query: query, headers: isPrefetch ? ["X-Sec-Purpose": "prefetch"] : [:],
            user: user, InboxPage.init(json:))
    }

    public func notification(_ id: String) async throws -> InboxNotification {
        try await call("GET", "/notifications/" + segment(id), InboxNotification.init(json:))
    }

    /// Marks one as read, or as unread.
    @discardableResult
    public func markRead(_ id: String, _ isRead: Bool = true) async throws -> InboxNotification {
        try await call(
            "PATCH", "/notifications/" + segment(id), body: .object([.init("read", .bool(isRead))]),
            InboxNotification.init(json:))
    }

    /// Marks all as read and clears the badge.
    /// - Parameter newest: the newest one that the user saw; later ones stay unread. Without it the library doesn't
    ///   repeat a failed call, which could mark notifications that nobody has seen.
    @discardableResult
    public func markAllRead(upTo newest: String? = nil) async throws -> Badge {
        let body = newest.map { [JSONValue.Member("up_to", .string($0))] } ?? []
        return try await call(
            "POST", "/notifications/mark_all_read", body: .object(body), repeats: newest != nil,
            { $0["badge"].flatMap(Badge.init(json:)) })
    }

    /// Deletes one. Succeeds if it is already gone.
    public func delete(_ id: String) async throws {
        try await deleteIfThere("/notifications/" + segment(id))
    }

    // MARK: - The badge

    public func badge() async throws -> Badge { try await badge(as: CallUser()) }

    func badge(as user: CallUser) async throws -> Badge {
        try await call("GET", "/badge", user: user, Badge.init(json:))
    }

    /// Clears the number on every device, because the user has seen the inbox. A number that the app's backend gives (`badge.policy: given`)
    /// stays, and is what this returns. Not repeated after a failure, because a
    /// later call could clear notifications that nobody has seen; `BadgeStore.clear` makes up for it.
    @discardableResult
    public func clearBadge() async throws -> Badge { try await clearBadge(as: CallUser()).badge }

    func clearBadge(as user: CallUser) async throws -> (badge: Badge, isGiven: Bool) {
        do {
            return (try await call("DELETE", "/badge", repeats: false, user: user, Badge.init(json:)), false)
        } catch let failure as ClientFailure where failure.code == "badge_is_given" {
            return (try await badge(as: user), true)
        }
    }

    // MARK: - Devices

    /// Registers this device for the user, or renews its registration. `DeviceRegistration` does this at the right
    /// times.
    /// - Parameters:
    ///   - provider: the service that gave the token and delivers to the device; nil: Apple for an iPhone, Firebase for Android.
    ///   - kind: `.fid` if `token` is a Firebase Installation ID; nil: a token.
    public func registerDevice(
        _ token: String, platform: DevicePlatform, provider: DeviceProvider? = nil, kind: DeviceTokenKind? = nil,
        environment: DeviceEnvironment = .production, appVersion: String? = nil, locale: String? = nil
    ) async throws {
        var body: [JSONValue.Member] = [
            .init("token", .string(token)), .init("platform", .string(platform.rawValue)),
            .init("environment", .string(environment.rawValue)),
        ]
        if let provider { body.append(.init("provider", .string(provider.rawValue))) }
        if let kind { body.append(.init("kind", .string(kind.rawValue))) }
        if let appVersion { body.append(.init("app_version", .string(appVersion))) }
        if let locale { body.append(.init("locale", .string(locale))) }
        _ = try await answer("POST", "/device_tokens", body: .object(body))
    }

    /// Ends the pushes to this device. Succeeds if it isn't registered.
    public func deleteDevice(_ token: String) async throws {
        try await deleteIfThere("/device_tokens/" + segment(token))
    }

    private func deleteIfThere(_ path: String) async throws {
        do {
            _ = try await answer("DELETE", path)
        } catch let failure as ClientFailure where failure.kind == .notFound {}
    }

    // MARK: - Streams

    /// The number, at once and after each change, over every interruption.
    public func badges() -> EventSequence<Badge> {
        EventSequence(api: self, path: "/badge/stream", lastEventID: nil) { event in
            guard event.name == "badge" else { return nil }
            return JSONValue(data: event.data).flatMap(Badge.init(json:))
        }
    }

    /// All events of the inbox, in order and once, over every interruption.
    /// - Parameter lastEventID: the `id` of the newest event handled in an earlier run, to get the missed ones.
    public func events(after lastEventID: String? = nil) -> EventSequence<InboxEvent> {
        EventSequence(api: self, path: "/notifications/stream", lastEventID: lastEventID) { InboxEvent($0) }
    }

    // MARK: - The app's parts

    /// The screens that deep links may name.
    /// - Parameter app: one of several apps of the server.
    public func deepLinks(app: String? = nil) async throws -> DeepLinkTree {
        try await call("GET", "/deep_links", query: app.map { ["app": $0] } ?? [:], isPublic: true, DeepLinkTree.init(json:))
    }

    /// The tabs of the path configuration, which Hotwire Native loads from `pathConfigurationURL`.
    public func tabs(_ platform: DevicePlatform = .ios, version: Int = 1, app: String? = nil) async throws -> TabConfiguration {
        try await call(
            "GET", pathConfigurationPath(platform, version), query: app.map { ["app": $0] } ?? [:], isPublic: true
        ) { $0["settings"].flatMap(TabConfiguration.init(settings:)) }
    }

    /// The address from which Hotwire Native loads its path configuration.
    public func pathConfigurationURL(_ platform: DevicePlatform = .ios, version: Int = 1, app: String? = nil) throws -> URL {
        try url(pathConfigurationPath(platform, version), query: app.map { ["app": $0] } ?? [:])
    }

    private func pathConfigurationPath(_ platform: DevicePlatform, _ version: Int) -> String {
        "/configurations/\(platform.rawValue)_v\(version).json"
    }
}
