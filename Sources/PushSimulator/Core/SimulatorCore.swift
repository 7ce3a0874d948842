import CampanileCore
import Synchronization

/// The simulator's state and decisions, without sockets. One lock guards everything, so each request is judged as a
/// whole.
final class SimulatorCore: Sendable {
    struct State {
        var providerTokens: ProviderTokens
        var accessTokens: AccessTokens
        var faults: FaultBook
        var phones: PhoneBook
        var ledger = PushLedger()
        var log: RequestLog
        var counters = SimulatorCounters()
        /// Fast mode: pushes, and their paths.
        var fastPushes = 0
        var paths: Set<String> = []
        /// Milliseconds added to the clock on command.
        var clockOffset: Int64 = 0
    }

    /// The end of a request.
    struct Verdict {
        var answer: SimulatedAnswer
        /// The answer's name in the log; nil for a success.
        var reason: String?
        var explanation: String?
        /// The fault that the connection must carry out.
        var fault: FaultAction?
        var delayMilliseconds = 0
        /// The push accepted with this request.
        var acceptedID: String?
    }

    let options: SimulatorOptions
    let projects: Set<String>
    let state: Mutex<State>
    /// True while any rule is active. Fast mode reads it with every frame, without the lock.
    let hasFaults = Atomic(false)

    /// - Throws: when a credential can't be read.
    init(options: SimulatorOptions, credentials: [SimulatorCredentials]) throws {
        self.options = options
        projects = Set(credentials.map(\.projectID))
        var keys: [String: ProviderKey] = [:]
        var accounts: [String: ServiceAccountKey] = [:]
        for credential in credentials {
            let key = try credential.providerKey()
            // One key may serve several apps of a team.
            keys[key.keyID, default: key].topics.insert(credential.topic)
            accounts[credential.clientEmail] = try credential.serviceAccountKey()
        }
        state = Mutex(
            State(
                providerTokens: ProviderTokens(keys: keys, isStrict: options.isStrict),
                accessTokens: AccessTokens(accounts: accounts, isStrict: options.isStrict),
                faults: FaultBook(seed: options.seed),
                phones: PhoneBook(knownOnly: options.knownTokensOnly, rules: options.phoneRules),
                log: RequestLog(capacity: options.requestsKept)))
    }

    /// The token endpoint's names beside Google's: the allowed values of an assertion's `aud`.
    func setTokenEndpoint(host: String, port: Int) {
        let hosts = [host.contains(":") ? "[\(host)]" : host, "127.0.0.1", "localhost", "[::1]"]
        state.withLock { state in
            for host in hosts { state.accessTokens.audiences.insert("https://\(host):\(port)/token") }
        }
    }

    /// Milliseconds since 1970.
    func now(_ state: borrowing State) -> Int64 { options.world.now().milliseconds + state.clockOffset }

    // MARK: - A request

    /// Judges a complete request, and gives the phone its push.
    func judge(_ request: SimulatedRequest, connection: inout ConnectionFacts) -> Verdict {
        var facts = connection
        defer { connection = facts }
        return state.withLock { state in
            let now = now(state)
            let service = SimulatorCore.service(request.path)
            var verdict =
                switch service {
                case .apns where facts.speaksHTTP1: SimulatorCore.refuseHTTP1()
                case .apns: judgeAPNs(request, connection: &facts, in: &state, now: now)
                case .fcm: judgeFCM(request, connection: &facts, in: &state, now: now)
                case .token: judgeTokenRequest(request, connection: facts, in: &state, now: now)
                }
            let fault = verdict.fault
            SimulatorCore.shape(&verdict)
            note(request, service: service, verdict: verdict, fault: fault, connection: facts, in: &state, now: now)
            return verdict
        }
    }

    /// Every path that isn't Google's goes to APNs, which says what is wrong with it.
    private static func service(_ path: String) -> SimulatedService {
        if path == "/token" { return .token }
        return path.hasPrefix("/v1/") ? .fcm : .apns
    }

    /// Carries out faults of the body; the connection carries out the others.
    private static func shape(_ verdict: inout Verdict) {
        switch verdict.fault {
        case .brokenJSON(let status)?:
            if let status { verdict.answer.status = status }
            verdict.answer.body = Array(#"{"reason":"Internal"#.utf8)
            verdict.fault = nil
        case .oversizedBody(let bytes, let status)?:
            verdict.answer.status = status
            verdict.answer.body =
                Array(#"{"reason":""#.utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: bytes) + Array(#""}"#.utf8)
            verdict.fault = nil
        case .status?, .outage?, .latency?:
            verdict.fault = nil
        default: break
        }
    }

    private func note(
        _ request: SimulatedRequest, service: SimulatedService, verdict: Verdict, fault: FaultAction?,
        connection: ConnectionFacts, in state: inout State, now: Int64
    ) {
        let isAnswered = verdict.fault?.leavesAnswer ?? true
        state.counters.requests += 1
        state.counters.requestsByService[service.rawValue, default: 0] += 1
        let status = verdict.answer.status
        state.counters.count(
            isAnswered ? verdict.reason.map { "\(status) \($0)" } ?? "\(status)" : "none: \(verdict.fault?.name ?? "")")
        let fields = request.fields.map { $0.name == "authorization" ? (name: $0.name, value: "…") : $0 }
        let record = RequestRecord(
            at: now, service: service, connection: connection.number, method: request.method, path: request.path,
            fields: fields,
            payload: service == .token
                ? "" : String(decoding: request.body.prefix(RequestLog.payloadBytes), as: UTF8.self),
            status: isAnswered ? status : nil, reason: isAnswered ? verdict.reason : nil,
            explanation: isAnswered ? verdict.explanation : nil, fault: fault?.name)
        state.log.add(record)
        options.requestFile?.add(record)
    }

    // MARK: - Reports of connections

    func opened() -> Int {
        state.withLock { state in
            state.counters.connections += 1
            state.counters.openConnections += 1
            return state.counters.connections
        }
    }

    func closed() { state.withLock { $0.counters.openConnections -= 1 } }

    /// Counts a stream opened above the limit.
    /// - Parameter isEarly: whether the client had not confirmed any limit yet.
    func refusedStream(isEarly: Bool) {
        state.withLock { state in
            if isEarly { state.counters.earlyStreams += 1 } else { state.counters.streamLimitViolations += 1 }
        }
    }

    /// Notes that the sender left before it had the whole answer to an accepted push.
    func leftUnanswered(_ id: String) { state.withLock { $0.ledger.leaveUnanswered(id) } }

    // MARK: - Commands

    func setFaults(_ rules: [FaultRule], isAdding: Bool = false) {
        state.withLock { state in
            if isAdding { state.faults.add(rules) } else { state.faults.set(rules) }
            hasFaults.store(!state.faults.isEmpty, ordering: .relaxed)
        }
    }

    // MARK: - Queries

    func counters() -> SimulatorCounters {
        state.withLock { state in
            var counters = state.counters
            if state.fastPushes > 0 {
                counters.requests += state.fastPushes
                counters.accepted += state.fastPushes
                counters.answers["200", default: 0] += state.fastPushes
            }
            counters.duplicates = state.ledger.duplicates
            counters.unexplainedDuplicates = state.ledger.unexplained
            counters.duplicateIDs = state.ledger.duplicateIDs
            counters.unanswered = state.ledger.unansweredCount
            counters.olderBadges = state.phones.olderBadges
            counters.distinctPaths = state.paths.count
            counters.faults = state.faults.happened
            counters.renewals = state.providerTokens.renewals
            counters.oldestTokenSeconds = state.providerTokens.oldestAge
            return counters
        }
    }

    /// Forgets phones, requests, counts and faults; keeps tokens and their renewals, as Apple would.
    func reset() {
        state.withLock { state in
            let open = state.counters.openConnections
            let connections = state.counters.connections
            state.counters = SimulatorCounters()
            // The counters also number the connections.
            state.counters.connections = connections
            state.counters.openConnections = open
            state.phones.removeAll()
            state.ledger = PushLedger()
            state.log.removeAll()
            state.paths.removeAll()
            state.fastPushes = 0
            state.faults = FaultBook(seed: options.seed)
            hasFaults.store(false, ordering: .relaxed)
        }
    }
}

extension FaultAction {
    /// True if the request gets an answer despite the fault.
    var leavesAnswer: Bool {
        switch self {
        case .refusedStream, .silence, .halfOpen, .close, .resetStream: false
        case .goaway(.older, _): false
        default: true
        }
    }

    /// True if the phone gets the push despite the fault.
    var leavesPush: Bool {
        switch self {
        case .status(_, _, _, _, let isApplied), .silence(let isApplied), .halfOpen(let isApplied),
            .close(let isApplied),
            .resetStream(_, let isApplied):
            isApplied
        case .refusedStream, .outage, .goaway(.older, _): false
        case .brokenJSON(let status): status.map { $0 < 300 } ?? true
        case .oversizedBody(_, let status): status < 300
        case .goaway, .settings, .trickle, .latency, .certificate: true
        }
    }
}
