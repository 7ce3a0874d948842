package import CampanileCore

/// A remembered request, without its credentials.
package struct RequestRecord: Sendable {
    /// Milliseconds since 1970.
    package let at: Int64
    package let service: SimulatedService
    package let connection: Int
    package let method: String
    package let path: String
    /// In their order; for `authorization`, only that it was there.
    package let fields: [(name: String, value: String)]
    /// The body; empty for the token endpoint, whose body is a credential.
    package let payload: String
    /// nil if there was no answer.
    package let status: Int?
    package let reason: String?
    /// The mistake in it, if the reason doesn't say it.
    package let explanation: String?
    /// The fault that happened to it.
    package let fault: String?

    /// The field's value; nil when it was missing.
    package func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }

    package var json: JSONValue {
        .object([
            .init("at", .string(Timestamp(milliseconds: at).description)),
            .init("service", .string(service.rawValue)),
            .init("connection", .integer(Int64(connection))),
            .init("method", .string(method)),
            .init("path", .string(path)),
            .init("headers", .array(fields.map { .array([.string($0.name), .string($0.value)]) })),
            .init("payload", .string(payload)),
            .init("status", status.map { .integer(Int64($0)) } ?? .null),
            .init("reason", reason.map { .string($0) } ?? .null),
            .init("explanation", explanation.map { .string($0) } ?? .null),
            .init("fault", fault.map { .string($0) } ?? .null),
        ])
    }
}

/// The newest requests.
struct RequestLog {
    static let payloadBytes = 8_192

    private var records: [RequestRecord] = []
    /// The slot of the next one once the ring is full.
    private var next = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = max(1, capacity) }

    mutating func add(_ record: RequestRecord) {
        if records.count < capacity {
            records.append(record)
        } else {
            records[next] = record
            next = (next + 1) % capacity
        }
    }

    /// Newest first.
    func newest(_ limit: Int) -> [RequestRecord] {
        let inOrder = records[next...] + records[..<next]
        return Array(inOrder.suffix(max(0, limit)).reversed())
    }

    mutating func removeAll() {
        records.removeAll()
        next = 0
    }
}
