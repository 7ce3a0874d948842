import CampanileCore

extension GivenBadge {
    /// The number in a request's `badge`; nil when there is none, or it holds a mistake.
    static func nested(in object: inout JSONObject) -> GivenBadge? {
        guard let value = object.value("badge") else { return nil }
        guard case .object(let members) = value else {
            object.fail("badge", .wrongType, "badge must be an object.")
            return nil
        }
        var inner = JSONObject(members)
        let given = GivenBadge(from: &inner)
        inner.refuseUnknown()
        for error in inner.errors { object.fail("badge.\(error.field)", error.code, "badge.\(error.message)") }
        return given
    }

    /// Nil when a mistake was noted.
    init?(from object: inout JSONObject) {
        let count = object.required(object.wholeNumber("count", Limits.givenCount), "count")
        let sequence = object.required(object.wholeNumber("sequence"), "sequence")
        let tenant = object.string("tenant", maxBytes: Limits.tenantBytes) ?? ""
        guard let count, let sequence else { return nil }
        self.init(count: count, sequence: sequence, tenant: tenant)
    }
}

extension JSONObject {
    fileprivate mutating func wholeNumber(_ field: String, _ range: ClosedRange<Int64> = .min ... .max) -> Int64? {
        guard let value = value(field) else { return nil }
        guard case .integer(let number) = value.withWholeNumbers else {
            fail(field, .wrongType, "\(field) must be a whole number of 64 bits.")
            return nil
        }
        guard range.contains(number) else {
            fail(field, .invalid, "\(field) must be \(range.lowerBound) to \(range.upperBound).")
            return nil
        }
        return number
    }
}
