import CampanileCore

/// A complete request as received.
struct SimulatedRequest {
    var method = ""
    var path = ""
    var authority = ""
    /// The fields except pseudo-headers, in their order, names in lower case.
    var fields: [(name: String, value: String)] = []
    var body: [UInt8] = []
    /// Bytes of the body, including those not kept.
    var bodyLength = 0

    /// The field's value; nil when it is missing.
    func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// The answer.
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

/// A refusal of a request by one of the services.
struct SimulatedRefusal: Error {
    let answer: SimulatedAnswer
    /// Its name in the log.
    let reason: String
    /// For FCM, the first field that is at fault, and what is wrong with it; for APNs, a sentence of the simulator's where Apple's reason
    /// doesn't tell enough.
    var explanation: String?
}

/// The services' state of one connection.
struct ConnectionFacts {
    /// Counts the connections from 1.
    let number: Int
    let environment: SimulatedEnvironment
    /// Google's services accept it, APNs doesn't.
    var speaksHTTP1 = false
    /// The key of the connection's first valid provider token: APNs accepts no other on it.
    var keyID: String?
    /// The end of the refusals after renewing too often (milliseconds since 1970).
    var unusableUntil: Int64?
    /// True once a valid provider token or access token came: APNs then allows more than one stream.
    var isTrusted = false
    /// Fast mode: the last valid `authorization`, and when it is to be checked again (milliseconds since 1970).
    var goodAuthorization = (text: "", until: Int64.min)
}
