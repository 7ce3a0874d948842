import CampanileCore
import HTTPEngine

/// `GET /notifications/{id}/deliveries`: what became of the pushes, device by device, or why nothing was owed.
struct DeliveryResource: Sendable {
    let database: Store

    func list(_ request: Request, _ producer: Producer) throws -> Answer {
        let id = try request.notificationID()
        return try database.answer { reading in
            guard let explanation = try Explanation(id, app: producer.app, in: reading) else { throw ClientError.notFound }
            return .json(200, explanation.json)
        }
    }
}
