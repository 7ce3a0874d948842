import CampanileCore
import Push

/// Counts how many tokens of an app die in a minute. A mass of dead tokens is a wrong configuration (another environment,
/// another app's key): then none is believed to be dead, and none is deleted.
struct DeadTokenGuard: Sendable {
    /// The judgement of a batch of answers.
    struct Verdict: Equatable, Sendable {
        /// Apps whose tokens are not deleted now.
        var spared: Set<String> = []
        /// Lanes where the tokens of other apps are too many, since this batch.
        var foreign: [Lane: Int] = [:]
        /// Apps whose tokens began to be spared with this batch, with the number of the dead.
        var alarms: [String: Int] = [:]
    }

    private struct Window: Sendable {
        var start: Timestamp
        var gone = 0
        var foreign: [DeviceProvider: Int] = [:]
        /// The users who have the tokens of other apps.
        var owners = Owners()
        var sparedUntil: Timestamp?

        var dead: Int { owners.areMany ? gone + foreign.values.reduce(0, +) : gone }

        /// A time that is much further away than it was set to is of a clock that was ahead.
        func spares(at now: Timestamp) -> Bool {
            guard let sparedUntil else { return false }
            let longest = Limits.sparingMilliseconds + Limits.clockJumpMilliseconds
            return (1...longest).contains(sparedUntil.milliseconds - now.milliseconds)
        }
    }

    /// The inboxes of other apps' tokens: a topic or project that is wrong is so for all users, and one user may have many tokens.
    private struct Owners: Sendable {
        private var inboxes: Set<InboxID> = []

        var areMany: Bool { inboxes.count > Limits.foreignTokensTolerated }

        mutating func insert(_ inbox: InboxID) {
            if !areMany { inboxes.insert(inbox) }
        }
    }

    /// The answers of a lane since the start, older ones counting less.
    private struct Belonging: Sendable {
        var accepted = 0
        var foreign = 0
        var owners = Owners()

        /// A topic or project that is wrong makes every token another app's, however slowly the pushes come.
        var isDoubtful: Bool {
            foreign > Limits.foreignTokensTolerated && (accepted == 0 || foreign >= accepted && owners.areMany)
        }

        mutating func count(_ push: AnsweredPush) {
            switch push.answer.outcome {
            case .accepted, .acceptedElsewhere: accepted += 1
            case .tokenForeign:
                foreign += 1
                owners.insert(push.push.inbox)
            default: return
            }
            guard accepted + foreign >= 10_000 else { return }
            accepted /= 2
            foreign /= 2
        }
    }

    private var windows: [String: Window] = [:]
    private var belongings: [Lane: Belonging] = [:]
    private let share: Double

    /// - Parameter share: of an app's tokens that may die within a minute, 0…1.
    init(share: Double) {
        self.share = share
    }

    /// A batch of answers, counted, and what is to be asked before it is judged.
    struct Counted: Sendable {
        /// Apps of which so many tokens died that they are believed only if the app has at least so many.
        var questions: [(app: String, tokens: Int)] = []
        fileprivate var foreign: [Lane: Int] = [:]
    }

    /// Counts a batch of answers.
    mutating func count(_ answered: [AnsweredPush], now: Timestamp) -> Counted {
        var counted = Counted()
        var isCounted: Set<String> = []
        for push in answered where !push.isJudged && !push.isOutdated {
            let app = push.push.message.app
            let isForeign = push.answer.outcome == .tokenForeign
            belongings[push.push.lane, default: Belonging()].count(push)
            if isForeign, let belonging = belongings[push.push.lane], belonging.isDoubtful {
                counted.foreign[push.push.lane] = belonging.foreign
            }
            switch push.answer.outcome {
            case .tokenGone, .tokenForeign: break
            default: continue
            }
            var window = current(app, now: now)
            if isForeign {
                window.foreign[push.push.lane.provider, default: 0] += 1
                window.owners.insert(push.push.inbox)
            } else {
                window.gone += 1
            }
            windows[app] = window
            isCounted.insert(app)
        }
        for app in isCounted {
            guard let dead = windows[app]?.dead, dead > Limits.deadTokensTolerated else { continue }
            // So many are the set share of how many? An app with more may lose them.
            counted.questions.append((app, Int((Double(dead) / share).rounded(.up))))
        }
        return counted
    }

    /// Judges a batch that was counted.
    /// - Parameter believed: the apps that have as many tokens as it takes.
    mutating func judge(_ counted: Counted, believing believed: Set<String>, now: Timestamp) -> Verdict {
        // Credentials that were replaced meanwhile leave nothing of what was counted.
        var verdict = Verdict(foreign: counted.foreign.filter { belongings[$0.key] != nil })
        for (app, _) in counted.questions where !believed.contains(app) {
            guard var window = windows[app], window.dead > Limits.deadTokensTolerated else { continue }
            if window.sparedUntil == nil { verdict.alarms[app] = window.dead }
            window.sparedUntil = Timestamp(milliseconds: now.milliseconds + Limits.sparingMilliseconds)
            windows[app] = window
            for (provider, count) in window.foreign where window.owners.areMany && count * 2 >= window.dead {
                verdict.foreign[Lane(app: app, provider: provider)] = count
            }
        }
        verdict.spared = Set(windows.filter { $0.value.spares(at: now) }.keys)
            .union(verdict.foreign.keys.map(\.app))
        return verdict
    }

    /// Forgets the answers to the old credentials of apps. Tokens that are spared stay so for as long as they would be.
    mutating func forgetAnswers(of apps: Set<String>, now: Timestamp) {
        belongings = belongings.filter { !apps.contains($0.key.app) }
        for app in apps { windows[app] = windows[app].map { Window(start: now, sparedUntil: $0.sparedUntil) } }
    }

    func sparedUntil(_ app: String, now: Timestamp) -> Timestamp? {
        windows[app].flatMap { $0.spares(at: now) ? $0.sparedUntil : nil }
    }

    private func current(_ app: String, now: Timestamp) -> Window {
        guard var window = windows[app] else { return Window(start: now) }
        if !window.spares(at: now) { window.sparedUntil = nil }
        // Begun by a clock that was set back since, it would never end.
        guard !(0..<60_000).contains(now.milliseconds - window.start.milliseconds) else { return window }
        return Window(start: now, sparedUntil: window.sparedUntil)
    }
}
