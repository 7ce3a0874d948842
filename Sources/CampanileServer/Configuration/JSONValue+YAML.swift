import CampanileCore
import Yams

extension JSONValue {
    /// Reads a YAML document that holds what JSON can say, such as openapi.yaml. Maps keep the order of their keys.
    /// - Throws: Yams' error when it is no YAML.
    init(yaml: String) throws {
        self = try Yams.compose(yaml: yaml).map(JSONValue.transcribe) ?? .null
    }

    private static func transcribe(_ node: Node) -> JSONValue {
        switch node {
        case .scalar(let scalar): scalar.style == .plain ? plain(scalar.string) : .string(scalar.string)
        case .sequence(let sequence): .array(sequence.map(transcribe))
        case .mapping(let mapping):
            .object(mapping.map { Member($0.key.scalar?.string ?? "", transcribe($0.value)) })
        // Yams replaces an alias by its anchored node when it composes.
        case .alias: .null
        }
    }

    /// What a scalar without quotes means (YAML 1.2 section 10.3.2, the core schema).
    private static func plain(_ text: String) -> JSONValue {
        switch text {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return .bool(true)
        case "false", "False", "FALSE": return .bool(false)
        default:
            if let integer = Int64(text) { return .integer(integer) }
            let isNumber = text.wholeMatch(of: /-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?/) != nil
            return isNumber ? .number(text) : .string(text)
        }
    }
}
