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
        let pushes = sandbox.pushes(app: producer.app, userID: userID)
        return .now(.json(200, .object([.init("pushes", .array(pushes.map(SandboxResource.json)))])))
    }

    private static func json(_ record: SandboxProvider.Record) -> JSONValue {
        .object([
            .init("provider", .string(record.message.device.provider.rawValue)),
            .init("platform", .string(record.message.device.platform.rawValue)),
            .init("token", .string(record.message.device.token)),
            .init("user_id", .string(record.message.userID)),
            .init("notification_id", record.notificationID.map { .string($0.description) } ?? .null),
            .init("headers", .object(record.request.headers)), .init("payload", record.request.payload),
            .init("sent_at", .string(record.message.sentAt.description)),
        ])
    }
}
