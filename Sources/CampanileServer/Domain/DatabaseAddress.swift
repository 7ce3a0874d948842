/// The place of the database, as a setting says it: the path of a SQLite file, or a URI of PostgreSQL.
package enum DatabaseAddress {
    private static let schemes = ["postgres://", "postgresql://"]

    package static func isPostgres(_ text: String) -> Bool { schemes.contains { text.hasPrefix($0) } }

    /// Says why the text is neither of the two, after what names the setting; nil if it may be one. No full stop. It doesn't
    /// repeat the text: what was meant for an address holds a password, and would be made a file's name, which everybody prints.
    package static func mistake(_ text: String) -> String? {
        if let hosts = hosts(text) { return hosts.allSatisfy(isHost) ? nil : malformed }
        // A path, whatever its folders are called.
        if ["/", "./", "../"].contains(where: text.hasPrefix) { return nil }
        let isAddress =
            text.contains("://") || text.first?.isWhitespace == true || text.first.map { "\"'`".contains($0) } == true
            || isLoneScheme(text) || isListOfSettings(text) || isWithoutScheme(text)
        return isAddress ? "must be the path of a file, or \(form), and is neither" : nil
    }

    private static let form = "postgres://user@host:5432/name (in small letters, without quotes and spaces)"

    private static let malformed =
        "must be \(form): after the : of a host stands a port; in a user's name and in a password write what isn't a letter or a "
        + "digit as % and two hexadecimal digits"

    /// `postgres:` without the slashes, or in capitals.
    private static func isLoneScheme(_ text: String) -> Bool {
        ["postgres:", "postgresql:"].contains { text.lowercased().hasPrefix($0) }
    }

    /// The other form of libpq: `host=db password=secret`.
    private static func isListOfSettings(_ text: String) -> Bool {
        let plain = text.lowercased().filter { !$0.isWhitespace }
        return ["password=", "host=", "hostaddr="].contains { plain.contains($0) }
    }

    /// `user:password@host/name`.
    private static func isWithoutScheme(_ text: String) -> Bool {
        let first = text.prefix { $0 != "/" }
        return first.firstIndex(of: ":").map { text[$0...].contains("@") } == true
    }

    /// Returns whether a URI has a password in it, before the host or as a parameter.
    package static func holdsPassword(_ text: String) -> Bool {
        guard let rest = afterScheme(text) else { return false }
        let query = rest.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        let isInQuery = query.split(separator: "&").contains { parameter in
            // libpq decodes names as well.
            let name = decoded(parameter.prefix { $0 != "=" })
            return name == "password" || name == "sslpassword"
        }
        // libpq looks for the @ up to the first slash, and takes a question mark before it for the user's or the password's.
        let authority = rest.prefix { $0 != "/" }
        guard let at = authority.lastIndex(of: "@") else { return isInQuery }
        return isInQuery || authority[..<at].contains(":")
    }

    private static func decoded(_ text: Substring) -> String {
        let parts = text.split(separator: "%", omittingEmptySubsequences: false)
        var bytes = Array((parts.first ?? "").utf8)
        for part in parts.dropFirst() {
            guard let byte = UInt8(part.prefix(2), radix: 16) else { return String(text) }
            bytes.append(byte)
            bytes += part.dropFirst(2).utf8
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The reason why a program is refused that gets such a URI as an argument, after what names the argument. No full stop.
    package static let passwordRefusal =
        "holds a password, which everybody on the machine can read in the list of processes; write the address without it, and "
        + "give the password in CAMPANILE_DATABASE (with the whole address), in PGPASSWORD or in ~/.pgpass"

    /// The setting for people, and for the log: without what only the database may read.
    package static func describe(_ text: String) -> String {
        guard isPostgres(text) else { return mistake(text) == nil ? text : "…" }
        return "postgres://" + (place(text) ?? "…")
    }

    /// Returns whether two settings name the same database, as far as one can tell without asking: user, password and parameters
    /// may differ.
    static func areSame(_ first: String, _ second: String) -> Bool {
        isPostgres(first) == isPostgres(second) && describe(first) == describe(second)
    }

    /// The hosts with their ports and the name of a URI; nil when what stands there may be a part of a password.
    private static func place(_ text: String) -> Substring? {
        guard let rest = afterScheme(text) else { return nil }
        let beforeQuery = rest.prefix { $0 != "?" }
        // Before it a password may stand that has a question mark in it.
        guard !rest[beforeQuery.endIndex...].contains("@") else { return nil }
        let place = beforeQuery.lastIndex(of: "@").map { beforeQuery[beforeQuery.index(after: $0)...] } ?? beforeQuery
        return split(place).allSatisfy(isHost) ? place : nil
    }

    /// The hosts of a URI with their ports, as libpq finds them; nil for a path.
    private static func hosts(_ text: String) -> [Substring]? {
        guard let rest = afterScheme(text) else { return nil }
        let at = rest.prefix { $0 != "/" }.firstIndex(of: "@")
        return split(at.map { rest[rest.index(after: $0)...] } ?? rest)
    }

    private static func split(_ place: Substring) -> [Substring] {
        place.prefix { $0 != "/" && $0 != "?" }.split(separator: ",", omittingEmptySubsequences: false)
    }

    /// Returns whether a host has no more than a port behind it. A password would stand there if the @ were forgotten.
    private static func isHost(_ host: Substring) -> Bool {
        // An IPv6 address stands in brackets.
        let end = host.first == "[" ? host.firstIndex(of: "]") : nil
        guard !host.contains("@"), host.first != "[" || end != nil else { return false }
        let rest = end.map { host[host.index(after: $0)...] } ?? host[(host.firstIndex(of: ":") ?? host.endIndex)...]
        return rest.isEmpty || (rest.first == ":" && rest.dropFirst().utf8.allSatisfy { (48...57).contains($0) })
    }

    private static func afterScheme(_ text: String) -> Substring? {
        schemes.first { text.hasPrefix($0) }.map { text.dropFirst($0.count) }
    }
}
