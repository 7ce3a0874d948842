import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization
import SystemSupport

/// `/healthz`: the process answers. `/readyz`: it can do its work, or says why not. `/openapi.yaml`: the contract.
final class HealthResource: Sendable {
    /// A proof that the database can be written. It costs a sync of the disk, and anyone may call, so there is at most
    /// one a second. Calls meanwhile get its result, or the failure of a later write.
    private struct Proof: Sendable {
        let at: Timestamp
        /// Writes that had failed before it.
        let refusals: Int
        let reason: Task<String?, Never>
    }

    private static let proofMilliseconds: Int64 = 1_000

    private let database: Store
    private let node: UUIDv7?
    private let world: World
    /// The parts of lanes that don't run.
    private let conditions: @Sendable () -> [(part: LanePart, condition: LaneCondition)]
    private let logger: Logger
    private let isDraining = Atomic<Bool>(false)
    private let proof = Mutex<Proof?>(nil)
    /// The time at which to look whether a damaged database is sound again; nil while it isn't damaged.
    private let nextCheck = Mutex<Timestamp?>(nil)
    /// The reasons that were logged since it was ready last, each once.
    private let told = Mutex<Set<String>>([])

    /// - Parameter node: this process as a node of a cluster; nil: it serves a file.
    init(
        database: Store, node: UUIDv7?, world: World,
        conditions: @escaping @Sendable () -> [(part: LanePart, condition: LaneCondition)],
        logger: Logger
    ) {
        self.database = database
        self.node = node
        self.world = world
        self.conditions = conditions
        self.logger = logger
    }

    /// Marks the server as draining: load balancers should send it no more requests.
    func startDraining() { isDraining.store(true, ordering: .relaxed) }

    func health(_ request: Request) throws -> Answer {
        .now(
            Response(
                status: 200,
                headers: [.init("Content-Type", "application/json"), .init("Cache-Control", "no-store")],
                body: .constant("{\"status\":\"ok\"}")))
    }

    func readiness(_ request: Request, _ insight: Insight) throws -> Answer {
        .later { [self] in await readiness(insight) }
    }

    /// Makes a real write: only that proves that writes are possible. Anyone gets the state and the number of reasons.
    func readiness(_ insight: Insight) async -> Response {
        var reasons: [String] = []
        if isDraining.load(ordering: .relaxed) { reasons.append("The server is stopping.") }
        let problems = [damageProblem(), await writeProblem()].compactMap(\.self)
        tellLog(problems)
        reasons += problems
        let isReady = reasons.isEmpty
        var members: [JSONValue.Member] = [
            .init("status", isReady ? "ready" : "unready"), .init("reason_count", .integer(Int64(reasons.count))),
        ]
        if insight != .none {
            let details = conditions().filter { insight.covers($0.part.lane.app) }.map { $0.condition.sentence($0.part) }
            members.append(.init("reasons", .array(reasons.map { .string($0) })))
            members.append(.init("details", .array(details.map { .string($0) })))
        }
        var response = Response.json(isReady ? 200 : 503, .object(members))
        // Another credential would be told more (RFC 9110 section 11.6.1).
        if insight == .none { response.add("WWW-Authenticate", "Bearer realm=\"campanile\"") }
        if !isReady { response.add("Retry-After", "1") }
        return response
    }

    /// The reasons aren't in the answer for everybody, so they are in the log, once; where one follows another, only so many.
    private func tellLog(_ problems: [String]) {
        let (new, isReadyAgain) = told.withLock { told in
            defer { told = problems.isEmpty ? [] : told.union(problems.prefix(max(0, Limits.toldReasons - told.count))) }
            return (
                told.count < Limits.toldReasons ? problems.filter { !told.contains($0) } : [], problems.isEmpty && !told.isEmpty
            )
        }
        for problem in new { logger.warning("The server isn't ready.", metadata: ["reason": "\(problem)"]) }
        if isReadyAgain { logger.notice("The server is ready again.") }
    }

    /// The damage that a call has found, as a reason for not being ready. Other calls that succeed prove nothing: it stays until a
    /// check of the whole file, made now and then, finds none, or until a restart.
    private func damageProblem() -> String? {
        guard let damage = database.damage.first else { return nil }
        let now = world.now()
        let isDue = nextCheck.withLock { next in
            let isDue = next.map { $0 <= now } ?? false
            if isDue || next == nil { next = Timestamp(milliseconds: now.milliseconds + Limits.damageCheckMilliseconds) }
            return isDue
        }
        if isDue { Task { [self] in await checkDamage() } }
        return "\(SQLError.damageRemedy) Found: \(damage.message)."
    }

    private func checkDamage() async {
        let findings = database.damage.findings
        do {
            try await SystemThread.run(name: "check") { [database] in try database.requireSound() }
            guard database.damage.forget(upTo: findings) else { return }
            nextCheck.withLock { $0 = nil }
            logger.notice("No damage of the database is known any more.")
        } catch {
            logger.debug("The database isn't sound.", metadata: ["error": "\(error)"])
        }
    }

    /// Returns the reason why nothing can be written now, if that is so.
    private func writeProblem() async -> String? {
        let now = world.now()
        let current = proof.withLock { proof in
            if let proof, (0..<HealthResource.proofMilliseconds).contains(now.milliseconds - proof.at.milliseconds) {
                return proof
            }
            let reason = Task { [database, node] in await HealthResource.prove(database, node) }
            let new = Proof(at: now, refusals: database.refusals.count, reason: reason)
            proof = new
            return new
        }
        if let reason = await current.reason.value { return reason }
        let refusals = database.refusals
        return refusals.count == current.refusals ? nil : HealthResource.sentence(refusals.last)
    }

    /// A create needs more room than the counter that is written: the log grows by every page that it changes.
    private static func prove(_ database: Store, _ node: UUIDv7?) async -> String? {
        do {
            try await database.rehearse { transaction in
                let large = IdempotentAnswer(location: nil, body: [UInt8](repeating: 0, count: Limits.readinessRoomBytes))
                try transaction.idempotencyKeys.store(large, to: IdempotencyKey(text: "", producer: APIKeyID(0), fingerprint: []))
            }
            // Among users' writes, because it is to show that those can be done.
            try await database.write { try $0.programState.proveWritable(by: node) }
            return nil
        } catch {
            return sentence(error)
        }
    }

    private static func sentence(_ error: (any Error)?) -> String {
        "The database can't be written: \((error as? SQLError)?.message ?? "unknown error")."
    }

    func description(_ request: Request) throws -> Answer {
        .now(
            Response(
                status: 200,
                headers: [.init("Content-Type", "application/yaml"), .init("Cache-Control", "public, max-age=300")],
                body: .program(ProgramBytes(file: "openapi.yaml"))))
    }
}
