import CampanileCore

/// A whole request as it came in.
struct SimulatedRequest {
    var method = ""
    var path = ""
    var authority = ""
    /// The fields but the pseudo-header ones, in their order, names in lower case.
    var fields: [(name: String, value: String)] = []
    var body: [UInt8] = []
    /// Bytes of the body, also those that were not kept.
    var bodyLength = 0

    /// The field's value; nil when it is missing.
    func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// What goes back.
struct SimulatedAnswer {
    var status: Int
    var fields: [(name: String, value: String)]
    var body: [UInt8]

    init(status: Int, fields: [(name: String, value: String)] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    init(status: Int, json: JSONValue) {
        self.init(status: status, fields: [("content-type", "application/json; charset=UTF-8")], body: json.text)
    }
}

/// What the services know of one connection.
struct ConnectionFacts {
    /// Counts the connections from 1.
    let number: Int
    let environment: SimulatedEnvironment
    /// Google's services take it, APNs doesn't.
    var speaksHTTP1 = false
    /// The key that the connection's first good provider token was signed with: APNs takes no other on it.
    var keyID: String?
    /// Renewing too often spoils the connection until this moment (milliseconds since 1970).
    var unusableUntil: Int64?
    /// Whether a good provider token or access token came: APNs then allows more than one stream.
    var isTrusted = false
    /// Fast mode: the `authorization` that was good last, and until when (milliseconds since 1970).
    var goodAuthorization = (text: "", until: Int64.min)
}
