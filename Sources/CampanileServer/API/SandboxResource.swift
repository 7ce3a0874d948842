import CampanileCore
import HTTPEngine
import Push

/// `GET /sandbox/pushes`: what the sandbox provider was given, newest first.
struct SandboxResource: Sendable {
    /// Nil when no app uses the sandbox.
    let sandbox: SandboxProvider?

    func list(_ request: Request, _ producer: Producer) throws -> Reply {
        guard let sandbox else { throw Problem(.notFound, detail: "No app of this server uses the sandbox.") }
        var errors: [FieldError] = []
        let userID = request.text(of: "user_id", &errors)
        guard errors.isEmpty else { throw Problem.invalid(errors) }
        let pushes = sandbox.pushes(app: producer.app, userID: userID)
        return .now(.json(200, .object([.init("pushes", .array(pushes.map(SandboxResource.json)))])))
    }

    private static func json(_ record: SandboxProvider.Record) -> JSONValue {
        .object([
            .init("provider", .string(record.message.device.provider.rawValue)),
            .init("platform", .string(record.message.device.platform.rawValue)), .init("token", .string(record.message.device.token)),
            .init("user_id", .string(record.message.userID)),
            .init("notification_id", record.notificationID.map { .string($0.description) } ?? .null),
            .init("headers", .object(record.request.headers)), .init("payload", record.request.payload),
            .init("sent_at", .string(record.message.sentAt.description)),
        ])
    }
}
