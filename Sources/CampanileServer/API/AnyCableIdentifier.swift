import CampanileCore
import FoundationEssentials

extension CableDisconnect {
    /// The members that name a user, where a connection is identified by several.
    private static let names = ["current_user", "user", "current_user_id", "user_id"]

    /// The user whom a connection's identifier in Rails names: a JSON text whose members are ids, or GlobalIDs (`gid://app/User/1`, also in
    /// Base64 as `to_gid_param` writes them), of which the last part is the id. Nil where it names none, or several things and no user.
    /// (AnyCable, "Authentication"; rails/globalid.)
    static func userID(of identifier: String) -> String? {
        guard case .object(let members)? = try? JSONValue(parsing: Array(identifier.utf8)) else { return nil }
        let value =
            members.count == 1
            ? members[0].value : names.lazy.compactMap { name in members.first { $0.key == name }?.value }.first
        switch value {
        case .integer(let number)?: return String(number)
        case .string(let text)?: return id(in: text)
        default: return nil
        }
    }

    private static func id(in text: String) -> String? {
        guard let gid = globalID(text) ?? decoded(text).flatMap(globalID) else { return text.isEmpty ? nil : text }
        return gid
    }

    private static func decoded(_ text: String) -> String? {
        var base64 = text.replacing("-", with: "+").replacing("_", with: "/")
        base64 += String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
        return Data(base64Encoded: base64).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The id in `gid://app/Model/id`, with or without parameters.
    private static func globalID(_ text: String) -> String? {
        guard let address = URL(string: text), address.scheme == "gid", address.host() != nil else { return nil }
        let parts = address.path(percentEncoded: true).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[2].isEmpty else { return nil }
        return String(address.path(percentEncoded: false).dropFirst(parts[1].count + 2))
    }
}
