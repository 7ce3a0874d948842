package import CampanileCore
package import Logging
import Synchronization

/// The provider tokens of one team, under one renewal clock: Apple counts a new `iat` per team, not per key, allows one
/// in 20 minutes and accepts a token for 60 (Apple, "Establishing a token-based connection to APNs"). All keys of the
/// team sign with the same `iat`. While the process runs the monotonic clock measures its age; after a restart the wall
/// clock does, and may be 5 minutes wrong both then and when the token was stored.
package final class APNsProviderTokens: Sendable {
    package typealias Grant = Result<String, PushTrouble>

    /// The reaction to a token that the provider refused.
    package enum Advice: Equatable {
        /// Ask for a token again: it will be a new one.
        case retry
        /// Only a person can help; the sentence says how.
        case mend(String)
    }

    static let renewalAge = Int64.minutes(50)
    /// From this age on a push waits for the renewal. If the clock is 5 minutes slow, the provider sees 59.
    static let lastAge = Int64.minutes(54)
    static let shortestInterval = Int64.minutes(20)
    static let clockMargin = Int64.minutes(5)
    private static let waiterLimit = 4_096

    private struct State: Sendable {
        var isLoaded = false
        /// Loading or renewing: one at a time.
        var isWorking = false
        /// `iat` in seconds since 1970; nil until the first token.
        var issuedAt: Int64?
        /// The monotonic moment from which the age counts.
        var issuedMoment: Int64 = 0
        /// The monotonic moment from which Apple allows the next renewal.
        var renewableFrom = Int64.min
        /// The provider refused the present token: don't present it again.
        var isRefused = false
        var tokens: [KeyName: StoredProviderToken] = [:]
        var waiters: [Waiter] = []
        var lastSave: Task<Void, Never>?
        var clock: ClockWatch
    }

    /// One file may have two ids, and an id may get another file than before.
    private struct KeyName: Hashable, Sendable {
        let keyID: String
        let fingerprint: String

        init(_ key: APNsKey) {
            keyID = key.keyID
            fingerprint = key.fingerprint
        }

        init(_ stored: StoredProviderToken) {
            keyID = stored.keyID
            fingerprint = stored.keyFingerprint
        }
    }

    private struct Waiter: Sendable {
        let key: APNsKey
        let done: @Sendable (Grant) -> Void
    }

    private enum Work { case none, load, renew }

    private let team: String
    private let store: any ProviderTokenStore
    private let world: World
    private let logger: Logger
    private let state: Mutex<State>

    package init(team: String, store: any ProviderTokenStore, world: World, logger: Logger) {
        self.team = team
        self.store = store
        self.world = world
        self.logger = logger
        state = Mutex(State(clock: ClockWatch(world)))
    }

    /// Gives a token that the provider accepts as younger than 60 minutes.
    /// - Parameter done: called once; at once if there is a token.
    package func token(for key: APNsKey, _ done: @escaping @Sendable (Grant) -> Void) {
        let now = world.monotonic()
        let (grant, work) = state.withLock { state -> (Grant?, Work) in
            guard state.waiters.count < APNsProviderTokens.waiterLimit else {
                return (.failure(.busy("Too many pushes wait for a provider token.")), .none)
            }
            // The push that begins a renewal waits for it, so that the new token is presented as soon as it is made:
            // Apple counts from then on. All other pushes use the old one.
            let work = nextWork(now: now, &state)
            if work == .none, let grant = present(key, now: now, &state) { return (grant, .none) }
            guard state.isWorking else { return (.failure(.busy("No provider token at the moment.")), .none) }
            state.waiters.append(Waiter(key: key, done: done))
            return (nil, work)
        }
        start(work, key)
        if let grant { done(grant) }
    }

    /// Reacts to the provider's answer that the token is expired or invalid.
    /// - Parameter reason: the provider's reason.
    package func refused(_ token: String, of key: APNsKey, reason: String) -> Advice {
        let now = world.monotonic()
        let (advice, work) = state.withLock { state -> (Advice, Work) in
            guard state.tokens[KeyName(key)]?.token == token, !state.isRefused else { return (.retry, .none) }
            guard now >= state.renewableFrom else {
                let age = max(now - state.issuedMoment, 0)
                return (.mend(state.clock.sentence(refused: reason, age: age, key: key, world)), .none)
            }
            state.isRefused = true
            return (.retry, nextWork(now: now, &state))
        }
        start(work, key)
        return advice
    }

    /// Notes that the provider accepted the token, so the clock was right when it was made.
    package func accepted() {
        state.withLock { $0.clock.trust() }
    }

    /// True while no token is being loaded or renewed.
    var isIdle: Bool { state.withLock { !$0.isWorking } }

    // MARK: - The clock of renewals

    /// The token to present now, if there is one young enough.
    private func present(_ key: APNsKey, now: Int64, _ state: inout State) -> Grant? {
        guard let issuedAt = state.issuedAt, !state.isRefused, now - state.issuedMoment < APNsProviderTokens.lastAge
        else { return nil }
        if let known = state.tokens[KeyName(key)] { return .success(known.token) }
        // Another key of the team: the same `iat` is no renewal.
        do throws(OperatorError) {
            let token = try sign(key, issuedAt: issuedAt)
            state.tokens[KeyName(key)] = token
            // A renewal under way stores its own token, which replaces this one.
            if !state.isWorking { save(Array(state.tokens.values), &state) }
            return .success(token.token)
        } catch {
            return .failure(PushTrouble(outcome: .misconfigured, reason: error.description))
        }
    }

    /// The work to begin now; marks it as begun.
    private func nextWork(now: Int64, _ state: inout State) -> Work {
        guard !state.isWorking else { return .none }
        guard state.isLoaded else {
            state.isWorking = true
            return .load
        }
        let isDue = state.issuedAt == nil || state.isRefused || now - state.issuedMoment >= APNsProviderTokens.renewalAge
        guard isDue, now >= state.renewableFrom else { return .none }
        state.isWorking = true
        return .renew
    }

    private func start(_ work: Work, _ key: APNsKey) {
        switch work {
        case .none: break
        case .load: Task { await load() }
        case .renew: Task { await renew(key) }
        }
    }

    private func load() async {
        var stored: [StoredProviderToken] = []
        do {
            stored = try await store.load(team: team)
        } catch {
            logger.warning(
                "The stored provider tokens can't be read; the team gets a new one.",
                metadata: ["team": "\(team)", "error": "\(error)"])
        }
        let (wall, now) = world.moment()
        state.withLock { state in
            state.isLoaded = true
            APNsProviderTokens.adopt(stored, wall, now: now, &state)
        }
        finishWork()
    }

    /// Presents from now on what another process, or an earlier one, made.
    private static func adopt(_ stored: [StoredProviderToken], _ wall: Timestamp, now: Int64, _ state: inout State) {
        guard let issuedAt = stored.map(\.issuedAt).max() else { return }
        let tokens = stored.filter { $0.issuedAt == issuedAt }.map { (KeyName($0), $0) }
        state.tokens = Dictionary(tokens) { first, _ in first }
        state.issuedAt = issuedAt
        state.isRefused = false
        judgeAge(of: issuedAt, wallSeconds: wall.milliseconds / 1_000, now: now, &state)
    }

    /// The age of another process's token.
    private static func judgeAge(of issuedAt: Int64, wallSeconds: Int64, now: Int64, _ state: inout State) {
        let age = Int64.seconds(min(max(wallSeconds - issuedAt, -1_000_000), 1_000_000))
        // Both readings may be 5 minutes wrong.
        if age >= -2 * clockMargin {
            state.issuedMoment = now - age
            state.renewableFrom = state.issuedMoment + shortestInterval + 2 * clockMargin
        } else {
            // From the future: one of the two readings was far off, but which one is unknown. Present the token; if
            // Apple refuses it, or after 20 minutes, the next one follows.
            state.issuedMoment = now - (renewalAge - shortestInterval)
            state.renewableFrom = now + shortestInterval
        }
    }

    /// Stores the token before it is presented, so that a crash can't turn it into a second renewal. Of two nodes that renew at once
    /// the one that stores first wins, and the other presents that token too.
    private func renew(_ key: APNsKey) async {
        let (wall, now) = world.moment()
        let issuedAt = wall.milliseconds / 1_000
        do {
            let token = try sign(key, issuedAt: issuedAt)
            let stored = await storeRenewed(token)
            let isMine = stored.contains(token)
            state.withLock { state in
                guard isMine else { return APNsProviderTokens.adopt(stored, wall, now: now, &state) }
                state.tokens = [KeyName(key): token]
                state.issuedAt = issuedAt
                state.issuedMoment = now
                state.renewableFrom = now + APNsProviderTokens.shortestInterval
                state.isRefused = false
                state.clock.issue(world)
            }
            logger.info(
                isMine ? "APNs: a new provider token." : "APNs: the new provider token of another node.",
                metadata: ["team": "\(team)", "key": "\(key.keyID)"])
        } catch {
            let waiters = state.withLock { state in
                defer { state.waiters = [] }
                return state.waiters
            }
            for waiter in waiters {
                waiter.done(.failure(PushTrouble(outcome: .misconfigured, reason: error.description)))
            }
        }
        finishWork()
    }

    private func finishWork() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            state.isWorking = false
            return state.waiters
        }
        for waiter in waiters { token(for: waiter.key, waiter.done) }
    }

    private func sign(_ key: APNsKey, issuedAt: Int64) throws(OperatorError) -> StoredProviderToken {
        StoredProviderToken(
            teamID: team, keyID: key.keyID, keyFingerprint: key.fingerprint, issuedAt: issuedAt,
            token: try key.sign(issuedAt: issuedAt))
    }

    /// - Returns: the team's tokens from now on: this one, unless another process was first.
    private func storeRenewed(_ token: StoredProviderToken) async -> [StoredProviderToken] {
        let (before, issuedAt) = state.withLock { ($0.lastSave, $0.issuedAt) }
        await before?.value
        do {
            return try await store.renew(token, after: issuedAt)
        } catch {
            noteUnstored(error)
            return [token]
        }
    }

    private func noteUnstored(_ error: any Error) {
        logger.warning(
            "The provider token couldn't be stored; a restart will make another one.",
            metadata: ["team": "\(team)", "error": "\(error)"])
    }

    /// Stores the team's tokens, after a store that is under way.
    @discardableResult
    private func save(_ tokens: [StoredProviderToken], _ state: inout State) -> Task<Void, Never> {
        let before = state.lastSave
        let task = Task { [team, store] in
            await before?.value
            do {
                try await store.replace(team: team, with: tokens)
            } catch {
                noteUnstored(error)
            }
        }
        state.lastSave = task
        return task
    }
}
