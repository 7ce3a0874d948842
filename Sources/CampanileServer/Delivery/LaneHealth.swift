import CampanileCore
import Push

/// How many pushes each part of a lane may have in flight, from what its provider answered: one that runs takes many, one whose
/// provider is down or whose configuration is wrong takes a single one now and then, the probe. Kept in memory: after a
/// restart each finds out anew.
struct LaneHealth: Sendable {
    /// A change of a part's condition.
    enum Change: Equatable, Sendable {
        case stopped(LaneCondition)
        case recovered
    }

    private struct Entry: Sendable {
        var inFlight = 0
        var condition: LaneCondition?
        /// Failures since the last answer that showed a provider at work.
        var failures = 0
        /// When a push was last accepted.
        var acceptedAt: Timestamp?
        /// The inboxes to whose devices pushes failed since then. One user's devices may be at fault, and not the part. An inbox counts 2, or 1
        /// while a single push to it wasn't answered.
        var failing: [InboxID: Int] = [:]
        /// The inboxes whose devices' answers called the configuration wrong.
        var misconfigured: Set<InboxID> = []
        /// When a stopped part may next be looked through for devices of other inboxes.
        var othersAt = Timestamp(milliseconds: 0)
        /// True if a token of it was called another app's since the start.
        var hasForeign = false
        /// Failed probes since the part stopped.
        var probes = 0
        var probeAt = Timestamp(milliseconds: 0)
        /// True if what is in flight is a probe: it was sent to find out whether the provider takes pushes again.
        var isProbing = false

        /// True while so few inboxes fail that their devices may be the fault.
        var mayBeDevices: Bool {
            !failing.isEmpty && failing.values.reduce(0, +) < 2 * Limits.failingUsers
        }

        mutating func fails(_ inbox: InboxID, by weight: Int = 2) {
            guard failing[inbox] != nil || failing.count < Limits.claimedDevices else { return }
            failing[inbox] = min(failing[inbox, default: 0] + weight, 2)
        }
    }

    private var entries: [LanePart: Entry] = [:]
    /// The lanes that tokens of other apps stopped: then only a success starts them again.
    private var foreignLanes: Set<Lane> = []
    private let unsafe: UnsafeOptions
    private(set) var inFlight = 0

    init(unsafe: UnsafeOptions = UnsafeOptions()) {
        self.unsafe = unsafe
    }

    var conditions: [LanePart: LaneCondition] { entries.compactMapValues(\.condition) }
    /// The lanes that pushes went to since the start, each with the number in flight.
    var inFlightByLane: [Lane: Int] {
        Dictionary(entries.map { ($0.key.lane, $0.value.inFlight) }, uniquingKeysWith: +)
    }
    /// The lanes that pushes to production went in since the start.
    var productionLanes: Set<Lane> { Set(entries.keys.filter { $0.environment == .production }.map(\.lane)) }

    /// The parts of a lane that had tokens of other apps since the start.
    func foreignParts(of lane: Lane) -> [LanePart] {
        entries.filter { $0.key.lane == lane && $0.value.hasForeign }.map(\.key)
    }

    /// The number of pushes that a part may have in flight beyond the present ones.
    func room(_ part: LanePart, now: Timestamp) -> Int {
        guard let entry = entries[part] else { return limit }
        guard entry.condition != nil else { return max(0, limit - entry.inFlight) }
        return entry.inFlight == 0 && entry.probeAt <= now ? 1 : 0
    }

    /// When a part without room is worth another look; nil when an answer will tell.
    func nextLook(_ part: LanePart) -> Timestamp? {
        guard let entry = entries[part], entry.condition != nil, entry.inFlight == 0 else { return nil }
        return entry.probeAt
    }

    /// The inboxes to whose devices pushes failed since one of the part was last accepted, and whether they are so few that it may be their
    /// devices.
    func failing(_ part: LanePart) -> (inboxes: [InboxID: Int], areFew: Bool) {
        entries[part].map { ($0.failing, $0.mayBeDevices) } ?? ([:], false)
    }

    /// When a stopped part may be looked through for devices of inboxes to which no push failed, before its next probe; nil when so many
    /// inboxes failed that it isn't their devices, or an answer will tell.
    func nextLookForOthers(_ part: LanePart) -> Timestamp? {
        guard let entry = entries[part], entry.condition != nil, entry.inFlight == 0, entry.mayBeDevices else { return nil }
        return entry.othersAt
    }

    /// Returns whether such a look may be now. If so, the next one may be a second later.
    mutating func looksForOthers(_ part: LanePart, now: Timestamp) -> Bool {
        guard let at = nextLookForOthers(part), at <= now else { return false }
        let next = nextOthers(now)
        entries[part]?.othersAt = next
        return true
    }

    private func nextOthers(_ now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds + max(Limits.firstProbeMilliseconds / unsafe.delayDivisor, 1))
    }

    /// The apps with a lane that tokens of other apps stopped: none of their tokens is at fault.
    var foreignApps: Set<String> { Set(foreignLanes.map(\.app)) }

    private func isForeign(_ part: LanePart) -> Bool { !foreignLanes.isEmpty && foreignLanes.contains(part.lane) }

    func isHealthy(_ part: LanePart) -> Bool { entries[part]?.condition == nil }

    /// With many in flight everywhere, each part keeps a few places, so that none is shut out by the others.
    private var limit: Int { inFlight < Limits.pushesInFlight ? Limits.pushesInFlightPerPart : Limits.pushesInFlightReserved }

    mutating func sent(_ part: LanePart, _ count: Int = 1) {
        var entry = entries[part, default: Entry()]
        entry.inFlight += count
        entry.isProbing = entry.condition != nil
        entries[part] = entry
        inFlight += count
    }

    /// A push that was counted as sent doesn't go.
    mutating func unsent(_ part: LanePart) {
        entries[part]?.inFlight -= 1
        inFlight -= 1
    }

    /// - Parameters:
    ///   - inbox: that of the device that the push went to.
    ///   - jitter: 64 random bits, which keep the servers of an outage from coming back together.
    /// - Returns: what the answer changed for the whole part.
    mutating func answered(
        _ part: LanePart, _ answer: PushAnswer, of inbox: InboxID, now: Timestamp, jitter: UInt64
    ) -> Change? {
        var entry = entries[part, default: Entry()]
        entry.inFlight -= 1
        inFlight -= 1
        defer { entries[part] = entry }
        switch answer.outcome {
        case .accepted, .acceptedElsewhere:
            entry.acceptedAt = now
            entry.failing = [:]
            entry.misconfigured = []
            if isForeign(part) { foreignLanes.remove(part.lane) }
            return recover(&entry)
        case .deviceBusy, .tokenGone, .rejected, .tokenForeign:
            if answer.outcome == .tokenForeign {
                entry.hasForeign = true
                entry.fails(inbox)
            }
            guard entry.hasForeign, isForeign(part) else { return recover(&entry) }
            guard let condition = entry.condition else { return nil }
            return stop(&entry, .parked, condition.reason, after: nil, now: now, jitter: jitter)
        case .unavailable(let after):
            entry.fails(inbox)
            return failed(&entry, answer, after: after, now: now, jitter: jitter)
        case .unprocessed, .unanswered:
            entry.fails(inbox, by: 1)
            return failed(&entry, answer, after: nil, now: now, jitter: jitter)
        case .misconfigured:
            // Among pushes that are accepted it may concern one user's devices.
            entry.fails(inbox)
            if entry.misconfigured.count < Limits.failingUsers { entry.misconfigured.insert(inbox) }
            let isFlowing =
                entry.acceptedAt.map { (0..<Limits.flowingMilliseconds).contains(now.milliseconds - $0.milliseconds) } ?? false
            if entry.condition == nil, isFlowing, entry.misconfigured.count < Limits.failingUsers { return nil }
            return stop(
                &entry, .parked, answer.reason ?? "the provider gave no reason", after: nil, now: now, jitter: jitter)
        }
    }

    /// Too many tokens of other apps: the configuration is wrong, not the tokens.
    mutating func park(_ part: LanePart, _ reason: String, now: Timestamp, jitter: UInt64) -> Change? {
        var entry = entries[part, default: Entry()]
        foreignLanes.insert(part.lane)
        defer { entries[part] = entry }
        return stop(&entry, .parked, reason, after: nil, now: now, jitter: jitter)
    }

    /// Somebody changed the configuration: every part may try at once.
    mutating func tryAgain(now: Timestamp) {
        for part in entries.keys {
            entries[part]?.probeAt = now
            entries[part]?.probes = 0
        }
    }

    private func recover(_ entry: inout Entry) -> Change? {
        entry.failures = 0
        entry.probes = 0
        entry.probeAt = Timestamp(milliseconds: 0)
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
        let isSameKind = entry.condition?.kind == kind
        let isNew = !isSameKind || entry.condition?.reason != reason
        // The answers to what was in flight when the part stopped are no probes.
        if entry.isProbing || entry.condition == nil {
            entry.isProbing = false
            let longest = kind == .outage ? Limits.outageProbeMilliseconds : Limits.parkedProbeMilliseconds
            let step = max(min(Limits.firstProbeMilliseconds << Int64(min(entry.probes, 20)), longest) / unsafe.delayDivisor, 1)
            let delay = max(step + Int64(jitter % UInt64(max(step * 15 / 100, 1))), floor ?? 0)
            let probeAt = Timestamp(milliseconds: now.milliseconds + delay)
            // A look for another inbox's device, before the time of the probe, doesn't bring that nearer.
            entry.probeAt = isSameKind && entry.mayBeDevices ? max(entry.probeAt, probeAt) : probeAt
            entry.othersAt = nextOthers(now)
            entry.probes += 1
        }
        guard isNew else { return nil }
        let since = isSameKind ? entry.condition?.since ?? now : now
        let condition = LaneCondition(kind: kind, reason: reason, since: since)
        entry.condition = condition
        return .stopped(condition)
    }
}
