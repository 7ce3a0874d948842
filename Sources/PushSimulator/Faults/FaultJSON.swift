package import CampanileCore
import FoundationEssentials

/// Reads the members of one object; an unread key is an error that names it.
struct StrictObject {
    private let members: [JSONValue.Member]
    private let place: String
    private var asked: Set<String> = []

    init(_ value: JSONValue, at place: String) throws(Mistake) {
        guard case .object(let members) = value else { throw Mistake("\(place) must be an object.") }
        self.members = members
        self.place = place
    }

    mutating func value(_ key: String) -> JSONValue? {
        asked.insert(key)
        return members.first { $0.key == key && $0.value != .null }?.value
    }

    mutating func text(_ key: String) throws(Mistake) -> String? {
        switch value(key) {
        case nil: return nil
        case .string(let text)?: return text
        default: throw Mistake("\(place).\(key) must be a string.")
        }
    }

    mutating func integer(
        _ key: String, in range: ClosedRange<Int64> = 0...Int64(Int32.max)
    ) throws(Mistake) -> Int? {
        switch value(key) {
        case nil: return nil
        case .integer(let integer)? where range.contains(integer): return Int(integer)
        default:
            throw Mistake(
                "\(place).\(key) must be an integer from \(range.lowerBound) to \(range.upperBound).")
        }
    }

    mutating func bool(_ key: String) throws(Mistake) -> Bool? {
        switch value(key) {
        case nil: return nil
        case .bool(let bool)?: return bool
        default: throw Mistake("\(place).\(key) must be true or false.")
        }
    }

    mutating func word<Word: RawRepresentable & CaseIterable>(
        _ key: String, _ type: Word.Type
    ) throws(Mistake) -> Word? where Word.RawValue == String {
        guard let text = try text(key) else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw Mistake("\(place).\(key) must be one of \(words).")
        }
        return word
    }

    func finish() throws(Mistake) {
        if let unknown = members.first(where: { !asked.contains($0.key) }) {
            throw Mistake("\(place).\(unknown.key) is unknown.")
        }
    }
}

extension FaultRule {
    /// The rules of a JSON list; one object counts as a list of one.
    package static func list(_ json: JSONValue) throws(Mistake) -> [FaultRule] {
        guard case .array(let values) = json else { return [try FaultRule(json, at: "rule")] }
        var rules: [FaultRule] = []
        for (index, value) in values.enumerated() { rules.append(try FaultRule(value, at: "rules[\(index)]")) }
        return rules
    }

    /// The rules of a JSON file.
    package static func list(file: String) throws(Mistake) -> [FaultRule] {
        guard let bytes = FileManager.default.contents(atPath: file) else {
            throw Mistake("The file of faults \(file) can't be read.")
        }
        let json: JSONValue
        do {
            json = try JSONValue(parsing: Array(bytes))
        } catch {
            throw Mistake("\(file): \(error)")
        }
        return try list(json)
    }

    init(_ json: JSONValue, at place: String) throws(Mistake) {
        var object = try StrictObject(json, at: place)
        var match = FaultMatch()
        if let value = object.value("match") { match = try FaultMatch(value, at: "\(place).match") }
        guard let action = object.value("action") else { throw Mistake("\(place).action is missing.") }
        var probability = 1.0
        if let value = object.value("probability") {
            guard let number = FaultRule.number(value), (0...1).contains(number) else {
                throw Mistake("\(place).probability must be a number from 0 to 1.")
            }
            probability = number
        }
        self.init(
            try FaultAction(action, at: "\(place).action"), match: match, probability: probability,
            every: try object.integer("every", in: 1...Int64(Int32.max)) ?? 1,
            times: try object.integer("times", in: 1...Int64(Int32.max)))
        try object.finish()
    }

    private static func number(_ value: JSONValue) -> Double? {
        switch value {
        case .integer(let integer): Double(integer)
        case .number(let text): Double(text)
        default: nil
        }
    }
}

extension FaultMatch {
    init(_ json: JSONValue, at place: String) throws(Mistake) {
        var object = try StrictObject(json, at: place)
        let service = try FaultMatch.unlessAny(&object, "service", SimulatedService.self)
        let kind = try FaultMatch.unlessAny(&object, "kind", PushKind.self)
        self.init(
            service: service, tokenPrefix: try object.text("token_prefix"), app: try object.text("app"), kind: kind,
            connection: try object.integer("connection"))
        try object.finish()
    }

    private static func unlessAny<Word: RawRepresentable & CaseIterable>(
        _ object: inout StrictObject, _ key: String, _ type: Word.Type
    ) throws(Mistake) -> Word? where Word.RawValue == String {
        if object.value(key) == .string("any") { return nil }
        return try object.word(key, type)
    }
}

extension FaultAction {
    init(_ json: JSONValue, at place: String) throws(Mistake) {
        var object = try StrictObject(json, at: place)
        guard let type = try object.text("type") else { throw Mistake("\(place).type is missing.") }
        self = try FaultAction.read(type, &object, at: place)
        try object.finish()
    }

    private static func read(
        _ type: String, _ object: inout StrictObject, at place: String
    ) throws(Mistake) -> FaultAction {
        switch type {
        case "status": try status(&object, at: place)
        case "goaway": try goaway(&object, at: place)
        case "refused_stream": .refusedStream
        case "settings":
            .settings(
                maxConcurrentStreams: try object.integer("max_concurrent_streams", in: 1...100_000) ?? 1,
                requests: try object.integer("requests") ?? 100)
        case "silence": .silence(isApplied: try object.bool("applied") ?? false)
        case "half_open": .halfOpen(isApplied: try object.bool("applied") ?? false)
        case "trickle": .trickle(gapMilliseconds: try object.integer("gap_ms") ?? 50)
        case "broken_json": .brokenJSON(status: try object.integer("status", in: 200...599))
        case "oversized_body":
            .oversizedBody(
                bytes: try object.integer("bytes", in: 16...64 * 1_048_576) ?? 1_048_576,
                status: try object.integer("status", in: 200...599) ?? 500)
        case "close": .close(isApplied: try object.bool("applied") ?? false)
        case "reset_stream":
            .resetStream(
                code: UInt32(try object.integer("code", in: 0...0xD) ?? 2),
                isApplied: try object.bool("applied") ?? false)
        case "latency": try latency(&object, at: place)
        case "certificate": try certificate(&object, at: place)
        case "outage": .outage(retryAfter: try object.integer("retry_after"))
        default: throw Mistake("\(place).type is unknown: \(type).")
        }
    }

    /// `reason` alone suffices if a table has its status.
    private static func status(_ object: inout StrictObject, at place: String) throws(Mistake) -> FaultAction {
        guard let reason = try object.text("reason") else { throw Mistake("\(place).reason is missing.") }
        let known = APNsReason(rawValue: reason)?.status ?? FCMErrorCode(rawValue: reason)?.status
        guard let status = try object.integer("status", in: 200...599) ?? known else {
            throw Mistake("\(place).status is missing: no table knows the reason \(reason).")
        }
        return .status(
            status, reason: reason, retryAfter: try object.integer("retry_after"),
            timestamp: try object.integer("timestamp_ms", in: 0...Int64.max).map { Int64($0) },
            isApplied: try object.bool("applied") ?? false)
    }

    private static func goaway(_ object: inout StrictObject, at place: String) throws(Mistake) -> FaultAction {
        let count = try object.integer("by") ?? 1
        let last: LastStream
        switch try object.text("last") ?? "present" {
        case "all": last = .all
        case "present": last = .present
        case "older": last = .older(by: count)
        default: throw Mistake("\(place).last must be one of all, present, older.")
        }
        return .goaway(last, reason: try object.text("reason") ?? APNsReason.shutdown.rawValue)
    }

    private static func latency(_ object: inout StrictObject, at place: String) throws(Mistake) -> FaultAction {
        if let exact = try object.integer("ms") { return .latency(exact...exact) }
        guard let from = try object.integer("from_ms"), let to = try object.integer("to_ms"), from <= to else {
            throw Mistake("\(place) needs ms, or from_ms and to_ms.")
        }
        return .latency(from...to)
    }

    private static func certificate(
        _ object: inout StrictObject, at place: String
    ) throws(Mistake) -> FaultAction {
        guard let change = CertificateChange(rawValue: try object.text("change") ?? "leaf") else {
            throw Mistake("\(place).change must be leaf or other_ca.")
        }
        return .certificate(change)
    }
}
