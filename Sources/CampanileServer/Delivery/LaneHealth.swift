import CampanileCore
import Push

/// How many pushes each lane may have in flight, from what its provider answered: a lane that runs takes many, one whose
/// provider is down or whose configuration is wrong takes a single one now and then, the probe. Kept in memory: after a
/// restart every lane finds out anew.
struct LaneHealth: Sendable {
    /// A change of a lane's condition.
    enum Change: Equatable, Sendable {
        case stopped(LaneCondition)
        case recovered
    }

    private struct Entry: Sendable {
        var inFlight = 0
        var condition: LaneCondition?
        /// Failures since the last answer that showed a provider at work.
        var failures = 0
        /// Answers in a row that call the configuration wrong, and when a push was last accepted.
        var misconfigured = 0
        var acceptedAt: Timestamp?
        /// Failed probes since the lane stopped.
        var probes = 0
        var probeAt = Timestamp(milliseconds: 0)
        /// True if what is in flight is a probe: it was sent to find out whether the provider takes pushes again.
        var isProbing = false
        /// True if tokens of other apps stopped the lane: then only a success starts it again.
        var isForeign = false
    }

    private var entries: [Lane: Entry] = [:]
    private let unsafe: UnsafeOptions
    private(set) var inFlight = 0

    init(unsafe: UnsafeOptions = UnsafeOptions()) {
        self.unsafe = unsafe
    }

    var conditions: [Lane: LaneCondition] { entries.compactMapValues(\.condition) }
    /// The lanes that pushes went to since the start, each with the number in flight.
    var inFlightByLane: [Lane: Int] { entries.mapValues(\.inFlight) }

    /// The number of pushes that a lane may have in flight beyond the present ones.
    func room(_ lane: Lane, now: Timestamp) -> Int {
        guard let entry = entries[lane] else { return limit }
        guard entry.condition != nil else { return max(0, limit - entry.inFlight) }
        return entry.inFlight == 0 && entry.probeAt <= now ? 1 : 0
    }

    /// When a lane without room is worth another look; nil when an answer will tell.
    func nextLook(_ lane: Lane) -> Timestamp? {
        guard let entry = entries[lane], entry.condition != nil, entry.inFlight == 0 else { return nil }
        return entry.probeAt
    }

    /// The apps with a lane that tokens of other apps stopped: none of their tokens is at fault.
    var foreignApps: Set<String> { Set(entries.filter { $0.value.isForeign }.map(\.key.app)) }

    func isHealthy(_ lane: Lane) -> Bool { entries[lane]?.condition == nil }

    /// With many in flight everywhere, each lane keeps a few places, so that none is shut out by the others.
    private var limit: Int { inFlight < Limits.pushesInFlight ? Limits.pushesInFlightPerLane : Limits.pushesInFlightReserved }

    mutating func sent(_ lane: Lane, _ count: Int = 1) {
        var entry = entries[lane, default: Entry()]
        entry.inFlight += count
        entry.isProbing = entry.condition != nil
        entries[lane] = entry
        inFlight += count
    }

    /// A push that was counted as sent doesn't go.
    mutating func unsent(_ lane: Lane) {
        entries[lane]?.inFlight -= 1
        inFlight -= 1
    }

    /// - Parameter jitter: 64 random bits, which keep the servers of an outage from coming back together.
    /// - Returns: what the answer changed for the whole lane.
    mutating func answered(_ lane: Lane, _ answer: PushAnswer, now: Timestamp, jitter: UInt64) -> Change? {
        var entry = entries[lane, default: Entry()]
        entry.inFlight -= 1
        inFlight -= 1
        defer { entries[lane] = entry }
        switch answer.outcome {
        case .accepted, .acceptedElsewhere:
            entry.acceptedAt = now
            entry.misconfigured = 0
            return recover(&entry)
        case .deviceBusy, .tokenGone, .rejected:
            guard entry.isForeign else { return recover(&entry) }
            fallthrough
        case .tokenForeign:
            guard entry.isForeign, let condition = entry.condition else { return nil }
            return stop(&entry, .parked, condition.reason, after: nil, now: now, jitter: jitter)
        case .unavailable(let after): return failed(&entry, answer, after: after, now: now, jitter: jitter)
        case .unprocessed, .unanswered: return failed(&entry, answer, after: nil, now: now, jitter: jitter)
        case .misconfigured:
            // Among pushes that are accepted it concerns some devices only: those of an environment that the key isn't for.
            entry.misconfigured += 1
            let isFlowing = entry.acceptedAt.map { now.milliseconds - $0.milliseconds < Limits.flowingMilliseconds } ?? false
            if entry.condition == nil, isFlowing, entry.misconfigured < Limits.misconfiguredInRow { return nil }
            return stop(
                &entry, .parked, answer.reason ?? "the provider gave no reason", after: nil, now: now, jitter: jitter)
        }
    }

    /// Too many tokens of other apps: the configuration is wrong, not the tokens.
    mutating func park(_ lane: Lane, _ reason: String, now: Timestamp, jitter: UInt64) -> Change? {
        var entry = entries[lane, default: Entry()]
        entry.isForeign = true
        defer { entries[lane] = entry }
        return stop(&entry, .parked, reason, after: nil, now: now, jitter: jitter)
    }

    /// Somebody changed the configuration: every lane may try at once.
    mutating func tryAgain(now: Timestamp) {
        for lane in entries.keys {
            entries[lane]?.probeAt = now
            entries[lane]?.probes = 0
        }
    }

    private func recover(_ entry: inout Entry) -> Change? {
        entry.failures = 0
        entry.probes = 0
        entry.isForeign = false
        entry.isProbing = false
        guard entry.condition != nil else { return nil }
        entry.condition = nil
        return .recovered
    }

    private func failed(
        _ entry: inout Entry, _ answer: PushAnswer, after: Int64?, now: Timestamp, jitter: UInt64
    ) -> Change? {
        entry.failures += 1
        guard entry.condition != nil || entry.failures >= Limits.outageFailures else { return nil }
        return stop(
            &entry, .outage, answer.reason ?? "the provider doesn't answer", after: after, now: now, jitter: jitter)
    }

    private func stop(
        _ entry: inout Entry, _ kind: LaneCondition.Kind, _ reason: String, after floor: Int64?, now: Timestamp,
        jitter: UInt64
    ) -> Change? {
        let isNew = entry.condition?.kind != kind || entry.condition?.reason != reason
        // The answers to what was in flight when the lane stopped are no probes.
        if entry.isProbing || entry.condition == nil {
            entry.isProbing = false
            let longest = kind == .outage ? Limits.outageProbeMilliseconds : Limits.parkedProbeMilliseconds
            let step = max(min(Limits.firstProbeMilliseconds << Int64(min(entry.probes, 20)), longest) / unsafe.delayDivisor, 1)
            let delay = max(step + Int64(jitter % UInt64(max(step * 15 / 100, 1))), floor ?? 0)
            entry.probeAt = Timestamp(milliseconds: now.milliseconds + delay)
            entry.probes += 1
        }
        guard isNew else { return nil }
        let since = entry.condition?.kind == kind ? entry.condition?.since ?? now : now
        let condition = LaneCondition(kind: kind, reason: reason, since: since)
        entry.condition = condition
        return .stopped(condition)
    }
}
