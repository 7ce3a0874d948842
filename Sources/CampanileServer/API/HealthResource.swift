import CampanileCore
import HTTPEngine
import SQLEngine
import Synchronization

/// `/healthz`: the process answers. `/readyz`: it can do its work, or says why not. `/openapi.yaml`: the contract.
final class HealthResource: Sendable {
    /// A proof that the database can be written costs a sync of the disk, and anybody may ask: there is one a second at
    /// most, and whoever asks meanwhile is told what it says, or what a write met since.
    private struct Proof: Sendable {
        let at: Timestamp
        /// Writes that had failed before it.
        let refusals: Int
        let reason: Task<String?, Never>
    }

    private static let proofMilliseconds: Int64 = 1_000

    private let database: Database
    private let world: World
    /// The lanes that don't run.
    private let conditions: @Sendable () -> [(lane: Lane, condition: LaneCondition)]
    private let isDraining = Atomic<Bool>(false)
    private let proof = Mutex<Proof?>(nil)

    init(
        database: Database, world: World, conditions: @escaping @Sendable () -> [(lane: Lane, condition: LaneCondition)]
    ) {
        self.database = database
        self.world = world
        self.conditions = conditions
    }

    /// From now on nobody should be sent here any more.
    func startDraining() { isDraining.store(true, ordering: .relaxed) }

    func health(_ request: Request) throws -> Reply {
        .now(
            Response(
                status: 200,
                headers: [.init("Content-Type", "application/json"), .init("Cache-Control", "no-store")],
                body: .constant("{\"status\":\"ok\"}")))
    }

    /// Asks the writer itself: only a write proves that writes are possible.
    func readiness(_ request: Request) throws -> Reply {
        .later { [self] in
            var reasons: [String] = []
            if isDraining.load(ordering: .relaxed) { reasons.append("The server is stopping.") }
            if let reason = await writeProblem() { reasons.append(reason) }
            let isReady = reasons.isEmpty
            var response = Response.json(
                isReady ? 200 : 503,
                .object([
                    .init("status", isReady ? "ready" : "unready"), .init("reasons", .array(reasons.map { .string($0) })),
                    .init("details", .array(conditions().map { .string($0.condition.sentence($0.lane)) })),
                ]))
            if !isReady { response.add("Retry-After", "1") }
            return response
        }
    }

    /// Why nothing can be written now, if that is so.
    private func writeProblem() async -> String? {
        let now = world.now()
        let current = proof.withLock { proof in
            if let proof, (0..<HealthResource.proofMilliseconds).contains(now.milliseconds - proof.at.milliseconds) {
                return proof
            }
            let reason = Task { [database] in await HealthResource.prove(database, now: now) }
            let new = Proof(at: now, refusals: database.refusals.count, reason: reason)
            proof = new
            return new
        }
        if let reason = await current.reason.value { return reason }
        let refusals = database.refusals
        return refusals.count == current.refusals ? nil : HealthResource.sentence(refusals.last)
    }

    /// A create needs more room than the counter that is written: the log grows by every page that it changes.
    private static func prove(_ database: Database, now: Timestamp) async -> String? {
        do {
            try await database.rehearse { connection in
                let large = IdempotentAnswer(
                    fingerprint: [], location: nil, body: [UInt8](repeating: 0, count: Limits.readinessRoomBytes))
                try IdempotencyRepository.store(large, key: "", apiKey: 0, at: now, in: connection)
            }
            try await database.write { try ProgramStateRepository.proveWritable(in: $0) }
            return nil
        } catch {
            return sentence(error)
        }
    }

    private static func sentence(_ error: (any Error)?) -> String {
        "The database can't be written: \((error as? SQLError)?.message ?? "unknown error")."
    }

    func description(_ request: Request) throws -> Reply {
        .now(
            Response(
                status: 200,
                headers: [.init("Content-Type", "application/yaml"), .init("Cache-Control", "public, max-age=300")],
                body: .array(PackageResources.openapi_yaml)))
    }
}
