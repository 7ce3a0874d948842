public import CampanileCore
public import Foundation

/// The server's calls, as the user who is signed in.
///
/// Every method throws a `ClientFailure`, which has a message for the user, or `CancellationError` when it was called off;
/// `ClientFailure(error)` is nil for the latter. What met no network, or a server that couldn't, is repeated as `RetryPolicy`
/// says, and then thrown.
///
/// A call with its repetitions, a list with its pages and a stream with its connections are the user's whose token the first
/// one had. They are called off when their task is cancelled, when the user signs out (`DeviceRegistration.signOut`), and when
/// the next token is another user's.
public final class CampanileAPI: Sendable {
    /// Gives the user token (a JWT that your backend signs); nil while nobody is signed in.
    /// - Parameter refused: the token that the server has just refused, so that a fresh one is needed; nil otherwise.
    public typealias UserToken = @Sendable (_ refused: String?) async throws -> String?

    public let baseURL: URL
    let userAgent: String
    let userToken: UserToken
    let transport: any HTTPTransport
    let retry: RetryPolicy
    private let device = Locked<String?>(nil)
    let departures = Locked(Departures())

    /// - Parameters:
    ///   - userAgent: must say that this is the app, or reading the list clears no badge: `Shop/2.1 Hotwire Native iOS`, or
    ///     what the server's `native_user_agents` names.
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

    /// This device's token. The server pushes no number to a device that had it in an answer, so calls name the device.
    /// `DeviceRegistration` sets it.
    public var deviceToken: String? {
        get { device.withLock { $0 } }
        set { device.withLock { $0 = newValue } }
    }

    // MARK: - The inbox

    /// The list as an async sequence of pages, each asked for when the loop comes to it. The first page of a native app
    /// clears the badge.
    public func notifications(
        _ filter: InboxFilter = .all, category: String? = nil, pageSize: Int = 50
    ) -> InboxPages {
        InboxPages(api: self, filter: filter, category: category, pageSize: pageSize)
    }

    /// One page.
    /// - Parameters:
    ///   - cursor: `nextCursor` of the page before; nil for the first.
    ///   - isPrefetch: true when the user doesn't look at it yet: the badge stays.
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
    /// - Parameter newest: the newest one that the user saw; what came since stays unread. Without it the call isn't
    ///   repeated after a failure, because by then it would read what nobody has seen.
    @discardableResult
    public func markAllRead(upTo newest: String? = nil) async throws -> Badge {
        let body = newest.map { [JSONValue.Member("up_to", .string($0))] } ?? []
        return try await call(
            "POST", "/notifications/mark_all_read", body: .object(body), repeats: newest != nil,
            { $0["badge"].flatMap(Badge.init(json:)) })
    }

    /// Deletes one. One that is gone is deleted too.
    public func delete(_ id: String) async throws {
        try await deleteIfThere("/notifications/" + segment(id))
    }

    // MARK: - The badge

    public func badge() async throws -> Badge { try await badge(as: CallUser()) }

    func badge(as user: CallUser) async throws -> Badge {
        try await call("GET", "/badge", user: user, Badge.init(json:))
    }

    /// The user has seen what is there: the number is 0 on every device. Not repeated after a failure, because by then it would
    /// clear what nobody has seen; `BadgeStore.clear` makes up for it.
    @discardableResult
    public func clearBadge() async throws -> Badge { try await clearBadge(as: CallUser()) }

    func clearBadge(as user: CallUser) async throws -> Badge {
        try await call("DELETE", "/badge", repeats: false, user: user, Badge.init(json:))
    }

    // MARK: - Devices

    /// Registers this device under the user, or again. `DeviceRegistration` does this at the right times.
    /// - Parameter provider: who delivers to it, and gave the token; nil: Apple to an iPhone, Firebase to Android.
    public func registerDevice(
        _ token: String, platform: DevicePlatform, provider: DeviceProvider? = nil,
        environment: DeviceEnvironment = .production, appVersion: String? = nil, locale: String? = nil
    ) async throws {
        var body: [JSONValue.Member] = [
            .init("token", .string(token)), .init("platform", .string(platform.rawValue)),
            .init("environment", .string(environment.rawValue)),
        ]
        if let provider { body.append(.init("provider", .string(provider.rawValue))) }
        if let appVersion { body.append(.init("app_version", .string(appVersion))) }
        if let locale { body.append(.init("locale", .string(locale))) }
        _ = try await answer("POST", "/device_tokens", body: .object(body))
    }

    /// No push comes to this device any more. One that isn't registered is deleted too.
    public func deleteDevice(_ token: String) async throws {
        try await deleteIfThere("/device_tokens/" + segment(token))
    }

    private func deleteIfThere(_ path: String) async throws {
        do {
            _ = try await answer("DELETE", path)
        } catch let failure as ClientFailure where failure.kind == .notFound {}
    }

    // MARK: - What changes

    /// The number at once, and then each time it changes, over every interruption.
    public func badges() -> EventSequence<Badge> {
        EventSequence(api: self, path: "/badge/stream", lastEventID: nil) { event in
            guard event.name == "badge" else { return nil }
            return JSONValue(data: event.data).flatMap(Badge.init(json:))
        }
    }

    /// Everything that happens in the inbox, in order and once, over every interruption.
    /// - Parameter lastEventID: the `id` of the newest event that was handled in an earlier run, to be told what was missed.
    public func events(after lastEventID: String? = nil) -> EventSequence<InboxEvent> {
        EventSequence(api: self, path: "/notifications/stream", lastEventID: lastEventID) { InboxEvent($0) }
    }

    // MARK: - What the app is made of

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

    /// Where Hotwire Native loads its path configuration from.
    public func pathConfigurationURL(_ platform: DevicePlatform = .ios, version: Int = 1, app: String? = nil) throws -> URL {
        try url(pathConfigurationPath(platform, version), query: app.map { ["app": $0] } ?? [:])
    }

    private func pathConfigurationPath(_ platform: DevicePlatform, _ version: Int) -> String {
        "/configurations/\(platform.rawValue)_v\(version).json"
    }
}
