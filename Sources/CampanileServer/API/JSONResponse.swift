import CampanileCore
import HTTPEngine

extension Response {
    /// What belongs to one user is kept by nobody else, and asked for anew.
    static func json(_ status: UInt16 = 200, _ body: consuming ByteBuffer) -> Response {
        Response(
            status: status,
            headers: [Header("Content-Type", "application/json"), Header("Cache-Control", "private, no-cache")],
            body: .bytes(body.finish()))
    }

    static func json(_ status: UInt16 = 200, _ value: JSONValue) -> Response {
        Response(
            status: status,
            headers: [Header("Content-Type", "application/json"), Header("Cache-Control", "private, no-cache")],
            body: .array(value.text))
    }
}
