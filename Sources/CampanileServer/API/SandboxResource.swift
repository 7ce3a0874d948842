import CampanileCore
import HTTPEngine
import Push

/// `GET /sandbox/pushes`: what the sandbox provider was given, newest first.
struct SandboxResource: Sendable {
    let sandbox: SandboxProvider
    let providers: PushProviders

    func list(_ request: Request, _ producer: Producer) throws -> Answer {
        guard DeviceProvider.allCases.contains(where: { providers.isSandbox(app: producer.app, kind: $0) })
        else { throw ClientError(.notFound, detail: "The app \(producer.app) doesn't use the sandbox.") }
        var errors: [FieldError] = []
        let userID = request.text(of: "user_id", &errors)
        guard errors.isEmpty else { throw ClientError.invalid(errors) }
        let pushes = sandbox.pushes(app: producer.app, userID: userID).map { record in
            SandboxResource.json(
                record.message, record.request, notificationID: record.notificationID, sentAt: record.message.sentAt)
        }
        return .now(.json(200, .object([.init("pushes", .array(pushes))])))
    }

    /// A push as a provider gets it.
    static func json(
        _ message: PushMessage, _ request: PushRequest, notificationID: UUIDv7?, sentAt: Timestamp?
    ) -> JSONValue {
        .object([
            .init("provider", .string(message.device.provider.rawValue)),
            .init("platform", .string(message.device.platform.rawValue)),
            .init("token", .string(message.device.token)),
            .init("user_id", .string(message.userID)),
            .init("notification_id", notificationID.map { .string($0.description) } ?? .null),
            .init("headers", .object(request.headers)), .init("payload", request.payload),
            .init("sent_at", sentAt.map { .string($0.description) } ?? .null),
        ])
    }
}
