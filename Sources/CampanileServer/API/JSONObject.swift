import CampanileCore
import Glibc
import HTTPEngine

/// A request's JSON object, read field by field: every mistake is noted, so that the answer names all of them at once.
struct JSONObject {
    private let members: [JSONValue.Member]
    private(set) var errors: [FieldError] = []
    /// The fields that were asked for. A list: hashing two dozen short names costs more than comparing them.
    private var known: [String] = []

    init(_ members: [JSONValue.Member]) { self.members = members }

    /// - Throws: `ClientError` when the body isn't declared as JSON, isn't JSON, or isn't an object.
    init(of request: Request) throws {
        guard case .object(let members) = try JSONObject.value(of: request) else {
            throw ClientError(.malformedJSON, detail: "The body must be a JSON object.")
        }
        self.members = members
    }

    /// - Throws: `ClientError` when the body isn't declared as JSON, or isn't JSON.
    static func value(of request: Request) throws -> JSONValue {
        try requireJSON(request)
        do {
            return try JSONValue(parsing: request.body)
        } catch {
            throw ClientError(.malformedJSON, detail: error.description)
        }
    }

    /// The body must be announced as JSON; parameters such as a charset are ignored (RFC 8259 knows UTF-8 only).
    private static func requireJSON(_ request: Request) throws {
        // Nearly everybody sends just this; the rest is taken apart.
        let isPlain = request.withHeader("content-type") { value in
            let plain: StaticString = "application/json"
            guard let value, value.count == plain.utf8CodeUnitCount, let start = value.baseAddress else { return false }
            return memcmp(start, plain.utf8Start, value.count) == 0
        }
        if isPlain { return }
        let type = request.header("content-type") ?? ""
        let essence = type.prefix { $0 != ";" }.trimmed.lowercasedASCII
        guard essence == "application/json" else {
            throw ClientError(.unsupportedMediaType, detail: "Send the body with Content-Type: application/json.")
        }
    }

    mutating func fail(_ error: FieldError) { errors.append(error) }

    mutating func fail(_ field: String, _ code: FieldError.Code, _ message: String) {
        errors.append(FieldError(field, code, message))
    }

    /// The value of a field; nil when it is absent or null.
    mutating func value(_ field: String) -> JSONValue? {
        known.append(field)
        guard let value = members.first(where: { $0.key == field })?.value, value != .null else { return nil }
        return value
    }

    func has(_ field: String) -> Bool { members.contains { $0.key == field } }

    mutating func string(_ field: String) -> String? {
        guard let value = value(field) else { return nil }
        guard case .string(let string) = value else {
            fail(field, .wrongType, "\(field) must be a string.")
            return nil
        }
        guard !string.utf8.contains(0) else {
            fail(field, .invalid, "\(field) must not contain NUL.")
            return nil
        }
        return string
    }

    /// A string of `minBytes` to `maxBytes` bytes of UTF-8.
    mutating func string(_ field: String, minBytes: Int = 0, maxBytes: Int) -> String? {
        guard let string = string(field) else { return nil }
        guard string.utf8.count <= maxBytes else {
            fail(field, .tooLong, "\(field) must be at most \(maxBytes) bytes of UTF-8.")
            return nil
        }
        guard string.utf8.count >= minBytes else {
            fail(field, .empty, "\(field) must not be empty.")
            return nil
        }
        return string
    }

    /// The strings of an array, each once, also beside a mistake in one of them, which is noted; nil when it is no array.
    mutating func texts(_ value: JSONValue, _ field: String, most: Int) -> [String]? {
        guard case .array(let values) = value else {
            fail(field, .wrongType, "\(field) must be an array of strings.")
            return nil
        }
        let texts = values.compactMap { if case .string(let text) = $0 { text } else { nil } }
        if texts.count != values.count { fail(field, .wrongType, "\(field) must be an array of strings.") }
        if values.count > most { fail(field, .tooMany, "\(field) must hold at most \(most) ids.") }
        // Two texts that only look alike are two ids: bytes are compared, and not characters.
        var seen: Set<ExactText> = []
        return texts.filter { seen.insert(ExactText($0)).inserted }
    }

    mutating func bool(_ field: String) -> Bool? {
        guard let value = value(field) else { return nil }
        guard case .bool(let bool) = value else {
            fail(field, .wrongType, "\(field) must be true or false.")
            return nil
        }
        return bool
    }

    mutating func choice<Choice: RawRepresentable & CaseIterable>(_ field: String, _: Choice.Type) -> Choice?
    where Choice.RawValue == String {
        guard let string = string(field) else { return nil }
        guard let choice = Choice(rawValue: string) else {
            let names = Choice.allCases.map(\.rawValue).joined(separator: " or ")
            fail(field, .invalid, "\(field) must be \(names).")
            return nil
        }
        return choice
    }

    mutating func required<Value>(_ value: Value?, _ field: String) -> Value? {
        if value == nil, !errors.contains(where: { $0.field == field }) {
            fail(field, .required, "\(field) is required.")
        }
        return value
    }

    /// Producers' unknown keys are mistakes; a client's are of a newer version, and ignored.
    mutating func refuseUnknown() {
        for member in members where !known.contains(member.key) {
            let name = String(member.key.prefix(64))
            let nearest = nearestNames(to: name, among: known).first.map { " Did you mean \($0)?" } ?? ""
            fail(name, .unknown, "\(name) is not a field of this request.\(nearest)")
        }
    }

    /// - Throws: the problem with all mistakes, if there was one.
    func throwIfInvalid() throws {
        if !errors.isEmpty { throw ClientError.invalid(errors) }
    }
}
