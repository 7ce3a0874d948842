import CampanileCore
import HTTPEngine
import SQLEngine
import Synchronization

/// `/healthz`: the process answers. `/readyz`: it can do its work, or says why not. `/openapi.yaml`: the contract.
final class HealthResource: Sendable {
    private let database: Database
    private let isDraining = Atomic<Bool>(false)

    init(database: Database) { self.database = database }

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
            do {
                try await database.write { try ProgramStateRepository.touch(in: $0) }
            } catch let error as SQLError {
                reasons.append("The database can't be written: \(error.message).")
            }
            let isReady = reasons.isEmpty
            var response = Response.json(
                isReady ? 200 : 503,
                .object([
                    .init("status", isReady ? "ready" : "unready"), .init("reasons", .array(reasons.map { .string($0) })),
                ]))
            if !isReady { response.add("Retry-After", "1") }
            return response
        }
    }

    func description(_ request: Request) throws -> Reply {
        .now(
            Response(
                status: 200,
                headers: [.init("Content-Type", "application/yaml"), .init("Cache-Control", "public, max-age=300")],
                body: .array(PackageResources.openapi_yaml)))
    }
}
