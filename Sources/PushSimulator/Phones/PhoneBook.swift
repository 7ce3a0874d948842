import CampanileCore

/// All phones, by device token. A registration token of Firebase's begins with the installation's ID and a colon, so both name one
/// phone.
struct PhoneBook {
    /// Which of Firebase's two kinds of identifier a push names.
    enum Target { case token, installationID }

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
    /// The last token that was seen of an installation.
    private var tokens: [ExactText: ExactText] = [:]
    private let knownOnly: Bool
    var rules: PhoneRules
    /// Tokens that changed since the last query; kept while there are watchers.
    private var changed: Set<ExactText> = []
    private var isWatched = false
    /// Badges that were set although a newer version was on the icon.
    private(set) var olderBadges = 0

    init(knownOnly: Bool, rules: PhoneRules = PhoneRules()) {
        self.knownOnly = knownOnly
        self.rules = rules
    }

    subscript(identifier: String) -> Phone? { phones[place(of: identifier)] }

    /// Returns the token of the phone that an identifier names; of a phone that isn't there, the identifier.
    private func place(of identifier: String) -> ExactText {
        let exact = ExactText(identifier)
        guard phones[exact] == nil else { return exact }
        guard let installation = PhoneBook.installation(of: identifier) else { return tokens[exact] ?? exact }
        return phones[installation].map { $0.installationID != .none } == true ? installation : exact
    }

    /// Returns the ID at the beginning of a registration token; nil without one.
    private static func installation(of token: String) -> ExactText? {
        token.firstIndex(of: ":").map { ExactText(String(token[..<$0])) }
    }

    private mutating func make(_ identifier: String, _ platform: PhonePlatform, _ environment: SimulatedEnvironment) {
        phones[ExactText(identifier)] = Phone(token: identifier, platform: platform, environment: environment)
        if let installation = PhoneBook.installation(of: identifier) { tokens[installation] = ExactText(identifier) }
    }

    /// Takes one push: finds the phone, or makes it, and shows or keeps the push.
    mutating func receive(
        _ push: PhonePush, token: String, as target: Target = .token, environment: SimulatedEnvironment, now: Int64
    ) -> Reception {
        if self[token] == nil {
            guard !knownOnly else { return .unknown }
            guard phones.count < SimulatorLimits.phones else { return .shown }
            make(token, push.platform, environment)
        }
        let (historyLimit, rules) = (historyLimit, rules)
        var isOlder = false
        let reception = withPhone(token) { phone -> Reception in
            if push.platform == .ios, phone.environment != environment { return .unknown }
            if let since = phone.goneSince { return .gone(since: since) }
            if target == .installationID, phone.installationID == .dead { return .gone(since: now) }
            if let app = phone.app, app != push.app { return .otherApp }
            if target == .installationID { phone.installationID = .registered }
            phone.app = push.app
            phone.platform = push.platform
            guard phone.isOnline else {
                phone.keep(push, rules)
                return .kept
            }
            let before = phone.olderBadges
            phone.apply(push, now: now, historyLimit: historyLimit, rules: rules)
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
        let place = place(of: token)
        guard let index = phones.index(forKey: place) else { return nil }
        if isWatched { changed.insert(place) }
        return change(&phones.values[index])
    }

    // MARK: - By hand

    /// Makes a phone known, with the given properties.
    mutating func set(
        _ token: String, platform: PhonePlatform? = nil, environment: SimulatedEnvironment? = nil, app: String? = nil
    ) {
        if self[token] == nil {
            make(token, platform ?? .ios, environment ?? .production)
        }
        withPhone(token) { phone in
            if let platform { phone.platform = platform }
            if let environment { phone.environment = environment }
            if let app { phone.app = app }
        }
    }

    /// Changes what a phone, or its user, does; delivers what waited for that.
    /// - Returns: whether there is such a phone.
    @discardableResult
    mutating func change(_ token: String, now: Int64, _ change: (inout Phone) -> Void) -> Bool {
        let (historyLimit, rules) = (historyLimit, rules)
        return withPhone(token) { phone -> Void in
            change(&phone)
            phone.takeWaiting(now: now, historyLimit: historyLimit, rules: rules)
        } != nil
    }

    /// The app was removed, with all that it showed, and installed again: its token died, and it has another.
    mutating func reinstall(_ token: String, as newToken: String, now: Int64) {
        guard let old = self[token] else { return }
        change(token, now: now) { phone in
            phone.goneSince = now
            phone.notifications = []
            phone.badge = 0
            phone.waiting = []
            phone.handled = HandledNotifications()
        }
        set(newToken, platform: old.platform, environment: old.environment, app: old.app)
        change(newToken, now: now) { phone in
            phone.isOnline = old.isOnline
            phone.hasExtension = old.hasExtension
            phone.isAsleep = old.isAsleep
        }
    }

    /// - Parameter since: when the token died, in milliseconds since 1970; nil if it is valid.
    mutating func setGone(_ token: String, since: Int64?) -> Bool {
        withPhone(token) { $0.goneSince = since } != nil
    }

    /// The app registers its installation's ID.
    mutating func registerInstallationID(_ identifier: String) {
        withPhone(identifier) { $0.installationID = .registered }
    }

    /// The app, or an SDK in it, calls `getToken()`, which fails in an app that has registered its installation's ID, and ends the ID.
    mutating func callGetToken(_ identifier: String) {
        withPhone(identifier) { phone in
            if phone.installationID == .registered { phone.installationID = .dead }
        }
    }

    mutating func removeAll() {
        phones.removeAll()
        tokens.removeAll()
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
