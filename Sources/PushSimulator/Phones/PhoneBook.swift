import CampanileCore

/// All phones, by device token.
struct PhoneBook {
    /// The result of a push.
    enum Reception {
        case shown
        case kept
        /// The token is unknown (or known in the other environment).
        case unknown
        case otherApp
        /// Milliseconds since 1970.
        case gone(since: Int64)
    }

    private(set) var phones: [ExactText: Phone] = [:]
    private let knownOnly: Bool
    /// Tokens that changed since the last query; kept while there are watchers.
    private var changed: Set<ExactText> = []
    private var isWatched = false
    /// Badges that were set although a newer version was on the icon.
    private(set) var olderBadges = 0

    init(knownOnly: Bool) { self.knownOnly = knownOnly }

    subscript(token: String) -> Phone? { phones[ExactText(token)] }

    /// Takes one push: finds the phone, or makes it, and shows or keeps the push.
    mutating func receive(
        _ push: PhonePush, token: String, environment: SimulatedEnvironment, now: Int64
    ) -> Reception {
        if self[token] == nil {
            guard !knownOnly else { return .unknown }
            guard phones.count < SimulatorLimits.phones else { return .shown }
            phones[ExactText(token)] = Phone(token: token, platform: push.platform, environment: environment)
        }
        let historyLimit = historyLimit
        var isOlder = false
        let reception = withPhone(token) { phone -> Reception in
            if push.platform == .ios, phone.environment != environment { return .unknown }
            if let since = phone.goneSince { return .gone(since: since) }
            if let app = phone.app, app != push.app { return .otherApp }
            phone.app = push.app
            phone.platform = push.platform
            guard phone.isOnline else {
                phone.keep(push)
                return .kept
            }
            let before = phone.olderBadges
            phone.apply(push, now: now, historyLimit: historyLimit)
            isOlder = phone.olderBadges > before
            return .shown
        }
        if isOlder { olderBadges += 1 }
        return reception ?? .unknown
    }

    /// Shortens the histories when there are many phones, so that their sum stays bounded.
    private var historyLimit: Int {
        max(2, min(SimulatorLimits.historyOfPhone, SimulatorLimits.history / max(1, phones.count)))
    }

    /// Changes a phone in place; nil when there is none.
    @discardableResult
    private mutating func withPhone<Value>(_ token: String, _ change: (inout Phone) -> Value) -> Value? {
        guard let index = phones.index(forKey: ExactText(token)) else { return nil }
        if isWatched { changed.insert(ExactText(token)) }
        return change(&phones.values[index])
    }

    // MARK: - By hand

    /// Makes a phone known, with the given properties.
    mutating func set(
        _ token: String, platform: PhonePlatform? = nil, environment: SimulatedEnvironment? = nil, app: String? = nil
    ) {
        if self[token] == nil {
            phones[ExactText(token)] = Phone(token: token, platform: platform ?? .ios, environment: environment ?? .production)
        }
        withPhone(token) { phone in
            if let platform { phone.platform = platform }
            if let environment { phone.environment = environment }
            if let app { phone.app = app }
        }
    }

    /// - Returns: whether there is such a phone.
    mutating func setOnline(_ token: String, _ isOnline: Bool, now: Int64) -> Bool {
        let historyLimit = historyLimit
        return withPhone(token) { phone in
            if isOnline {
                phone.comeOnline(now: now, historyLimit: historyLimit)
            } else {
                phone.isOnline = false
            }
        } != nil
    }

    /// - Parameter since: when the token died, in milliseconds since 1970; nil if it is valid.
    mutating func setGone(_ token: String, since: Int64?) -> Bool {
        withPhone(token) { $0.goneSince = since } != nil
    }

    mutating func removeAll() {
        phones.removeAll()
        changed.removeAll()
        olderBadges = 0
    }

    // MARK: - For watchers

    mutating func watch(_ isWatched: Bool) {
        self.isWatched = isWatched
        if !isWatched { changed.removeAll() }
    }

    /// The phones that changed since the last call, up to a limit.
    mutating func takeChanged(_ limit: Int) -> [Phone] {
        let taken = Array(changed.prefix(limit))
        changed.subtract(taken)
        return taken.compactMap { phones[$0] }
    }
}
