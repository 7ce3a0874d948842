/// A fault on command.
package enum FaultAction: Sendable, Equatable {
    /// The last stream that a GOAWAY calls processed.
    package enum LastStream: Sendable, Equatable {
        /// All streams, also later ones: an orderly drain.
        case all
        /// The present request: it is still answered.
        case present
        /// This many requests before the present one, which isn't processed. Never below a processed one.
        case older(by: Int)
    }

    package enum CertificateChange: String, Sendable {
        /// Another certificate of the same authority: clients reconnect.
        case leaf
        /// A certificate of an untrusted authority: clients must refuse it.
        case otherAuthority = "other_ca"
    }

    /// An answer from the service's own tables.
    /// - `timestamp`: with 410, milliseconds since 1970. `isApplied`: the phone got the push anyway.
    case status(Int, reason: String, retryAfter: Int?, timestamp: Int64?, isApplied: Bool)
    case goaway(LastStream, reason: String)
    /// RST_STREAM with REFUSED_STREAM: never processed.
    case refusedStream
    /// Changes the connection's stream limit for this many requests, then restores it.
    case settings(maxConcurrentStreams: Int, requests: Int)
    /// The stream never gets an answer.
    case silence(isApplied: Bool)
    /// From now on the connection neither reads nor writes, and stays open.
    case halfOpen(isApplied: Bool)
    /// The answer comes byte by byte.
    case trickle(gapMilliseconds: Int)
    /// The answer's body ends in the middle. nil means the status of a success.
    case brokenJSON(status: Int?)
    case oversizedBody(bytes: Int, status: Int)
    /// The connection ends without an answer.
    case close(isApplied: Bool)
    case resetStream(code: UInt32, isApplied: Bool)
    /// The answer comes late, by a number of milliseconds from this range.
    case latency(ClosedRange<Int>)
    /// All connections end, and new ones get another certificate.
    case certificate(CertificateChange)
    /// 503 for every match, until the rule is removed.
    case outage(retryAfter: Int?)

    /// The name in the control calls and the counters.
    package var name: String {
        switch self {
        case .status: "status"
        case .goaway: "goaway"
        case .refusedStream: "refused_stream"
        case .settings: "settings"
        case .silence: "silence"
        case .halfOpen: "half_open"
        case .trickle: "trickle"
        case .brokenJSON: "broken_json"
        case .oversizedBody: "oversized_body"
        case .close: "close"
        case .resetStream: "reset_stream"
        case .latency: "latency"
        case .certificate: "certificate"
        case .outage: "outage"
        }
    }
}

/// The requests that a fault matches; nil matches everything.
package struct FaultMatch: Sendable, Equatable {
    package var service: SimulatedService?
    package var tokenPrefix: String?
    /// The bundle id or the Firebase project.
    package var app: String?
    package var kind: PushKind?
    /// The number of the connection, counted from 1.
    package var connection: Int?

    package init(
        service: SimulatedService? = nil, tokenPrefix: String? = nil, app: String? = nil, kind: PushKind? = nil,
        connection: Int? = nil
    ) {
        self.service = service
        self.tokenPrefix = tokenPrefix
        self.app = app
        self.kind = kind
        self.connection = connection
    }

    func matches(_ subject: FaultSubject) -> Bool {
        if let service, service != subject.service { return false }
        if let tokenPrefix, subject.token?.hasPrefix(tokenPrefix) != true { return false }
        if let app, app != subject.app { return false }
        if let kind, kind != subject.kind { return false }
        if let connection, connection != subject.connection { return false }
        return true
    }
}

/// The request to match.
struct FaultSubject {
    let service: SimulatedService
    let token: String?
    let app: String?
    let kind: PushKind?
    let connection: Int
}

/// A fault and when it happens. The limits combine: each `every`-th matching request, with `probability`, and at most
/// `times` times.
package struct FaultRule: Sendable, Equatable {
    package var match: FaultMatch
    package var probability: Double
    package var every: Int
    package var times: Int?
    package var action: FaultAction

    package init(
        _ action: FaultAction, match: FaultMatch = FaultMatch(), probability: Double = 1, every: Int = 1,
        times: Int? = nil
    ) {
        self.action = action
        self.match = match
        self.probability = probability
        self.every = max(1, every)
        self.times = times
    }
}

/// The active rules. Chance comes from a seeded generator: the same requests in the same order meet the same faults.
struct FaultBook {
    private struct Entry {
        let rule: FaultRule
        var matched = 0
        var happened = 0
    }

    private var entries: [Entry] = []
    private var random: SeededGenerator
    private(set) var happened: [String: Int] = [:]

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    var isEmpty: Bool { entries.isEmpty }
    var rules: [(rule: FaultRule, happened: Int)] { entries.map { ($0.rule, $0.happened) } }

    mutating func set(_ rules: [FaultRule]) { entries = rules.map { Entry(rule: $0) } }
    mutating func add(_ rules: [FaultRule]) { entries += rules.map { Entry(rule: $0) } }

    /// The faults of a request: all delays, and the first other fault.
    mutating func next(for subject: FaultSubject) -> (delayMilliseconds: Int, action: FaultAction?) {
        var delay = 0
        for index in entries.indices {
            guard strikes(index, subject) else { continue }
            let action = entries[index].rule.action
            happened[action.name, default: 0] += 1
            if case .latency(let range) = action {
                delay += Int.random(in: range, using: &random)
            } else {
                return (delay, action)
            }
        }
        return (delay, nil)
    }

    private mutating func strikes(_ index: Int, _ subject: FaultSubject) -> Bool {
        let rule = entries[index].rule
        if let times = rule.times, entries[index].happened >= times { return false }
        guard rule.match.matches(subject) else { return false }
        entries[index].matched += 1
        guard entries[index].matched % rule.every == 0 else { return false }
        if rule.probability < 1, Double.random(in: 0..<1, using: &random) >= rule.probability { return false }
        entries[index].happened += 1
        return true
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators"): small, and the same
/// everywhere.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
