import CPostgres

/// Where a PostgreSQL database is and how one comes in: a URI or a text of `key=value` pairs, as libpq understands it. Several
/// hosts may be named; only one that takes writes is used, unless the address says otherwise.
///
/// Source: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNSTRING
package struct PostgresAddress: Sendable, CustomStringConvertible {
    /// True if the text itself holds a password.
    package let holdsPassword: Bool
    /// The database and its hosts: never a password.
    package let description: String
    /// libpq's settings, with this program's where the text says nothing.
    let settings: [Setting]
    private let secrets: [String]

    struct Setting: Sendable {
        let name: String
        let value: String
    }

    /// The settings that hold unless the text says otherwise. A server that is gone is noticed within seconds: `tcp_user_timeout`
    /// (milliseconds) is for what was sent and isn't confirmed, the keepalives are for silence.
    private static let defaults = [
        "connect_timeout": "3", "keepalives": "1", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3",
        "tcp_user_timeout": "8000", "target_session_attrs": "read-write",
    ]

    /// Understands the text. Opens libpq, if nothing has.
    ///
    /// - Throws: `SQLError` (`cantOpen`): libpq isn't installed, or doesn't understand the text. It doesn't repeat the text,
    ///   where a password may stand in any place.
    package init(_ text: String) throws(SQLError) {
        try Self.loadLibrary()
        guard let given = Self.parse(text) else { throw Self.malformed }
        let hosts = given["host"] ?? given["hostaddr"] ?? "the local socket"
        let ports = given["port"] ?? ""
        // A character of a password that would have had to be written as %40 or the like.
        guard !hosts.contains("@"), ports.utf8.allSatisfy({ (48...57).contains($0) || $0 == 44 }),
            !(Self.isPostgres(text) && (given["dbname"] ?? "").contains("@"))
        else { throw Self.malformed }
        secrets = [given["password"], given["sslpassword"]].compactMap { $0 }.filter { !$0.isEmpty }
        holdsPassword = !secrets.isEmpty
        let place = hosts.split(separator: ",").joined(separator: ",") + (ports.isEmpty ? "" : ":" + ports)
        description = "\(given["dbname"] ?? given["user"] ?? "the default database") at \(place)"
        settings = given.merging(Self.defaults) { given, _ in given }.map { Setting(name: $0, value: $1) }
            .sorted { $0.name < $1.name }
    }

    /// Tells whether the text is a URI of PostgreSQL.
    package static func isPostgres(_ text: String) -> Bool {
        text.hasPrefix("postgres://") || text.hasPrefix("postgresql://")
    }

    /// Returns the settings with only the hosts that stand behind this one; nil if none does.
    static func settings(_ settings: [Setting], behind host: String, port: String) -> [Setting]? {
        func list(_ name: String) -> [String] {
            let value = settings.first { $0.name == name }?.value ?? ""
            return value.isEmpty ? [] : value.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"))
        let place = (0..<max(hosts.count, addresses.count)).first { index in
            let name = index < hosts.count && !hosts[index].isEmpty ? hosts[index] : addresses.dropFirst(index).first
            let own = ports.count == 1 ? ports[0] : ports.dropFirst(index).first ?? ""
            return name == host && (own.isEmpty || own == port)
        }
        guard let place, place + 1 < max(hosts.count, addresses.count) else { return nil }
        return settings.map { setting in
            let isOfEach = setting.name == "host" || setting.name == "hostaddr" || setting.name == "port" && ports.count > 1
            guard isOfEach else { return setting }
            return Setting(name: setting.name, value: list(setting.name).dropFirst(place + 1).joined(separator: ","))
        }
    }

    /// The text without what must not be read in it.
    func redact(_ text: String) -> String {
        var text = text
        for secret in secrets { text = Self.replace(secret, in: text) }
        return text
    }

    private static func replace(_ secret: String, in text: String) -> String {
        let (sought, bytes) = (Array(secret.utf8), Array(text.utf8))
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index...].starts(with: sought) {
                result += Array("…".utf8)
                index += sought.count
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static let malformed = SQLError(
        code: .cantOpen,
        message: "the database's address is no URI that libpq understands: postgres://user@host:port/database?name=value; "
            + "in a password write what isn't a letter or a digit as % and two hexadecimal digits",
        sqlState: "08001")

    private static func parse(_ text: String) -> [String: String]? {
        var reason: UnsafeMutablePointer<CChar>?
        let parsed = cpq_conninfoParse(text, &reason)
        // It quotes the text.
        cpq_freemem(reason)
        guard let parsed else { return nil }
        defer { cpq_conninfoFree(parsed) }
        var given: [String: String] = [:]
        var option = parsed
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { given[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return given
    }

    /// True once this process has opened libpq, and with it the libraries that libpq needs.
    package static var isLibraryOpen: Bool { cpostgres_is_loaded() }

    private static func loadLibrary() throws(SQLError) {
        guard let reason = library else { return }
        throw SQLError(
            code: .cantOpen, message: "PostgreSQL needs the library libpq (Debian: apt-get install libpq5): \(reason)",
            sqlState: "08001")
    }

    /// Why libpq can't be used; nil if it can. Asked once in a process.
    private static let library: String? = cpostgres_load().map { String(cString: $0) }
}
