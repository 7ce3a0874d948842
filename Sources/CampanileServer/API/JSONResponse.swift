import CampanileCore
import HTTPEngine

extension Response {
    /// An answer for one user: shared caches may not store it, and private ones ask again each time.
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
