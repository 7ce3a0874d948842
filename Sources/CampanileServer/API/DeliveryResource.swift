import CampanileCore
import HTTPEngine

/// `GET /notifications/{id}/deliveries`: what became of the pushes, device by device, or why nothing was owed.
struct DeliveryResource: Sendable {
    let database: Store

    func list(_ request: Request, _ producer: Producer) throws -> Answer {
        let id = try request.notificationID()
        guard let explanation = try Explanation(id, app: producer.app, database) else { throw ClientError.notFound }
        return .now(.json(200, explanation.json))
    }
}
