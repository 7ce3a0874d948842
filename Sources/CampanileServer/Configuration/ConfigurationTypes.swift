import CampanileCore
import FoundationEssentials
import Glibc
import HTTPEngine
import SystemSupport

/// Limits of the configuration.
enum ConfigurationLimits {
    /// Bytes of the configuration file.
    static let fileBytes = 1 << 20
    /// Values in the configuration file; an alias counts wherever it is used.
    static let nodes = 100_000
    /// Maps and lists, one within the other.
    static let depth = 64
    /// Bytes of a file that a setting names.
    static let namedFileBytes = 4 << 20
    /// The fewest bytes of an HS256 key (RFC 7518 section 3.2: as long as the hash), and of Rails' keys.
    static let keyBytes = 32
    /// The fewest bytes of a bearer token: enough that it can't be guessed over the network.
    static let tokenBytes = 16
    /// Levels of `deep_links`: the parser of the table's JSON takes no deeper nesting.
    static let deepLinkLevels = 12
    /// Screens of one app: for a refused link the server searches all of them for the nearest.
    static let deepLinkNodes = 1_000
    /// Keys of the query of one screen.
    static let deepLinkQueryKeys = 32
    /// Bytes of a segment's name and of a query's key.
    static let deepLinkNameBytes = 128
    /// Tabs and rules of one path configuration.
    static let pathTabs = 20
    static let pathRules = 500
    /// Milliseconds from one backup to the next, at least.
    static let backupMilliseconds: Int64 = 60_000
    /// Milliseconds that notifications and deliveries are kept, at least; and device tokens, which are seen once a day.
    static let retentionMilliseconds: Int64 = 3_600_000
    /// The least time and room for broadcasts: a client that comes back after a cut finds what it missed.
    static let leastBroadcastMilliseconds: Int64 = 60_000
    static let leastBroadcastBytes: Int64 = 1_048_576
    static let deviceRetentionMilliseconds: Int64 = 2 * 24 * 3_600_000
}

/// The type of a single value: the texts that it allows and their parsed form. An empty text is never valid, and is
/// refused before `parse`.
struct SettingType<Value> {
    let parse: (WrittenValue.Scalar) throws(Mistake) -> Value
}

extension SettingType where Value == String {
    /// Any text on one line.
    static var text: Self {
        Self { scalar throws(Mistake) in
            if scalar.style == .plain, isYAMLBoolean(scalar.text) {
                throw Mistake("must be text, and is a boolean; in quotes it would be text")
            }
            if scalar.text.unicodeScalars.contains(where: isControl) {
                throw Mistake("must be one line of text without control characters")
            }
            return scalar.text
        }
    }

    /// Text without white space: an identifier from another system.
    static var identifier: Self {
        refined { $0.allSatisfy { !$0.isWhitespace } ? nil : "must not hold white space" }
    }

    /// The path of a SQLite file, which must not be a directory; or a URI of PostgreSQL.
    static var database: Self {
        refined { text in
            if let mistake = DatabaseAddress.mistake(text) { return mistake }
            if DatabaseAddress.isPostgres(text) { return nil }
            if text == ":memory:" || text.hasPrefix("file:") {
                return
                    "must be the path of a file, or postgres://user@host/name; this is neither"
            }
            let isTaken = File.isDirectory(text) == true
            return isTaken ? "must be a file, and \(quotedForMessage(path: text)) is a directory" : nil
        }
    }

    /// The path of a directory, which may be missing.
    static var directory: Self {
        refined { text in
            let isTaken = File.isDirectory(text) == false
            return isTaken ? "must be a directory, and \(quotedForMessage(path: text)) is a file" : nil
        }
    }

    /// An IPv4 or IPv6 address or a host name (RFC 1123 section 2.1).
    static var host: Self {
        refined { text in
            let rule = "must be an IP address or a host name, without scheme and port"
            return isHost(text) ? nil : "\(rule), and is \(quotedForMessage(text))"
        }
    }

    /// The serialization of an origin that a browser sends (RFC 6454 section 6.2).
    static var origin: Self {
        refined { text in
            let wrong = "must be an origin such as https://app.example.com, without a path, a default port or capitals"
            let defaultPorts = ["http": 80, "https": 443]
            guard let url = url(text), let scheme = url.scheme, let defaultPort = defaultPorts[scheme],
                let host = url.host(), isHost(host), url.port != defaultPort, (1...65_535).contains(url.port ?? defaultPort)
            else { return wrong }
            let port = url.port.map { ":\($0)" } ?? ""
            // The recomposed text must be equal: with a path, a final slash or a capital it would never match.
            let again = "\(scheme)://\(host.contains(":") ? "[\(host)]" : host)\(port)"
            return again == text && text == text.lowercased() ? nil : wrong
        }
    }

    /// A stream's name with its placeholders. Without the user's, all users would share a stream.
    static var streamName: Self {
        refined { text in
            do throws(Mistake) {
                _ = try StreamNamePattern(text)
                return nil
            } catch {
                return error.sentence
            }
        }
    }

    /// A regular expression.
    static var pattern: Self {
        refined { text in
            PathPattern(text) != nil ? nil : "must be a regular expression, and is \(quotedForMessage(text))"
        }
    }

    /// Text without a `complaint`.
    static func refined(_ complaint: @escaping (String) -> String?) -> Self {
        Self { scalar throws(Mistake) in
            let text = try Self.text.parse(scalar)
            if let wrong = complaint(text) { throw Mistake(wrong) }
            return text
        }
    }
}

extension SettingType where Value == Secret {
    /// A secret with a minimum of bytes. No complaint repeats it.
    static func secret(minimumBytes: Int) -> Self {
        Self { scalar throws(Mistake) in
            let bytes = scalar.text.utf8.count
            guard bytes >= minimumBytes else {
                throw Mistake("must be at least \(minimumBytes) bytes long, and is \(bytes)")
            }
            guard !scalar.text.unicodeScalars.contains(where: isControl) else {
                throw Mistake("must be one line of text without control characters")
            }
            return Secret(scalar.text)
        }
    }

    /// A token that an Authorization header can carry (RFC 6750 section 2.1: `b64token`).
    static var bearerToken: Self {
        Self { scalar throws(Mistake) in
            let secret = try Self.secret(minimumBytes: ConfigurationLimits.tokenBytes).parse(scalar)
            guard scalar.text.wholeMatch(of: #/[A-Za-z0-9\-._~+/]+=*/#) != nil else {
                throw Mistake("must hold only letters, digits and - . _ ~ + /, with = at the end")
            }
            return secret
        }
    }
}

extension SettingType where Value == Bool {
    static var boolean: Self {
        Self { scalar throws(Mistake) in
            switch (scalar.style, scalar.text) {
            case (.plain, "true"), (.plain, "True"), (.plain, "TRUE"), (.outside, "true"): return true
            case (.plain, "false"), (.plain, "False"), (.plain, "FALSE"), (.outside, "false"): return false
            case (.quoted, _): throw Mistake("must be true or false, without quotes")
            default: throw Mistake("must be true or false, and is \(quotedForMessage(scalar.text))")
            }
        }
    }
}

extension SettingType where Value == Int {
    /// A whole number in decimal digits.
    static func wholeNumber(_ range: ClosedRange<Int>) -> Self {
        Self { scalar throws(Mistake) in
            let expected = "must be a whole number from \(range.lowerBound) to \(range.upperBound)"
            guard scalar.style != .quoted else { throw Mistake("\(expected), without quotes") }
            let isDecimal = scalar.text.wholeMatch(of: #/0|-?[1-9][0-9]*/#) != nil
            guard isDecimal, let number = Int(scalar.text), range.contains(number) else {
                throw Mistake("\(expected), and is \(quotedForMessage(scalar.text))")
            }
            return number
        }
    }

    /// A TCP port; 0 means a free one of the system's choice.
    static var port: Self { wholeNumber(0...65_535) }
}

extension SettingType where Value == Int64 {
    /// A length of time in milliseconds, written as a whole number with a unit: 30s, 15m, 24h, 7d.
    static func duration(atLeast least: Int64) -> Self {
        Self { scalar throws(Mistake) in
            let units: [Character: Int64] = ["s": 1_000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000]
            let rule = "must be a whole number with a unit (s, m, h or d), such as 24h or 30d"
            guard let unit = scalar.text.last.flatMap({ units[$0] }),
                scalar.text.dropLast().wholeMatch(of: #/[1-9][0-9]{0,5}/#) != nil, let count = Int64(scalar.text.dropLast())
            else { throw Mistake("\(rule), and is \(quotedForMessage(scalar.text))") }
            guard count * unit >= least else {
                let shortest = units.filter { least % $0.value == 0 }.max { $0.value < $1.value }
                let words = shortest.map { "\(least / $0.value)\($0.key)" } ?? "\(least / 1_000)s"
                throw Mistake("must be at least \(words), and is \(quotedForMessage(scalar.text))")
            }
            return count * unit
        }
    }
}

extension SettingType where Value == Int64 {
    /// A number of bytes, written as a whole number with a unit: 512KiB, 64MiB, 1GiB.
    static func size(atLeast least: Int64) -> Self {
        Self { scalar throws(Mistake) in
            let units: [(name: String, bytes: Int64)] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]
            let rule = "must be a whole number with a unit (KiB, MiB or GiB), such as 64MiB"
            guard let unit = units.first(where: { scalar.text.hasSuffix($0.name) }),
                scalar.text.dropLast(unit.name.count).wholeMatch(of: #/[1-9][0-9]{0,5}/#) != nil,
                let count = Int64(scalar.text.dropLast(unit.name.count))
            else { throw Mistake("\(rule), and is \(quotedForMessage(scalar.text))") }
            guard count * unit.bytes >= least else {
                throw Mistake("must be at least \(least >> 20)MiB, and is \(quotedForMessage(scalar.text))")
            }
            return count * unit.bytes
        }
    }
}

extension SettingType {
    /// A value, or the word `never`.
    static func never<Kept>(or type: SettingType<Kept>) -> Self where Value == Kept? {
        Self { scalar throws(Mistake) in
            guard scalar.text != "never" else { return nil }
            do throws(Mistake) {
                return try type.parse(scalar)
            } catch {
                throw Mistake("\(error.sentence); never is a value too")
            }
        }
    }
}

extension SettingType where Value: RawRepresentable & CaseIterable & Sendable, Value.RawValue == String {
    /// One of a few words.
    static func word(_: Value.Type) -> Self {
        Self { scalar throws(Mistake) in
            guard let value = Value(rawValue: scalar.text) else {
                let words = Value.allCases.map(\.rawValue)
                let meant = nearestNames(to: scalar.text, among: words).first
                let question = meant.map { "; did you mean \($0)?" } ?? ""
                throw Mistake(
                    "must be \(words.joined(separator: " or ")), and is \(quotedForMessage(scalar.text))\(question)")
            }
            return value
        }
    }
}

extension SettingType where Value == IPNetwork {
    static var network: Self {
        Self { scalar throws(Mistake) in
            let text = try SettingType<String>.text.parse(scalar)
            let rule = "must be an IP address or a network such as 10.0.0.0/8, and is \(quotedForMessage(text))"
            guard let (network, address) = IPNetwork.parse(text) else { throw Mistake(rule) }
            guard network.address == address else {
                throw Mistake("\(rule): write \(network) for the network, or \(address) for the address alone")
            }
            return network
        }
    }
}

extension SettingType where Value == URL {
    /// The address of a server instead of a provider's own. It gets the app's credentials, so only over TLS.
    static var endpoint: Self {
        Self { scalar throws(Mistake) in
            let wrong = Mistake(
                "must be an https URL of a host and, if need be, a port, such as https://127.0.0.1:2197")
            guard let url = url(scalar.text), url.scheme == "https", let host = url.host(), isHost(host) else {
                throw wrong
            }
            let isBare = url.user == nil && url.password == nil && url.query == nil && url.fragment == nil
            guard isBare, ["", "/"].contains(url.path()), (1...65_535).contains(url.port ?? 443) else { throw wrong }
            return url
        }
    }
}

private func url(_ text: String) -> URL? {
    URL(string: text, encodingInvalidCharacters: false)
}

private func isHost(_ text: String) -> Bool {
    if text.contains(":") {
        var address = in6_addr()
        return inet_pton(AF_INET6, text, &address) == 1
    }
    if text.wholeMatch(of: #/[0-9.]+/#) != nil {
        var address = in_addr()
        return inet_pton(AF_INET, text, &address) == 1
    }
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    return text.utf8.count <= 253
        && labels.allSatisfy { label in
            label.utf8.count <= 63 && label.wholeMatch(of: #/[A-Za-z0-9]([A-Za-z0-9\-]*[A-Za-z0-9])?/#) != nil
        }
}

/// Returns whether YAML 1.2 (section 10.3.2) reads a plain scalar as a boolean.
func isYAMLBoolean(_ text: String) -> Bool {
    ["true", "True", "TRUE", "false", "False", "FALSE"].contains(text)
}

private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .control
}

/// A text from outside in quotes, on one line and not too long, for a message.
func quotedForMessage(_ text: String, limit: Int = 60) -> String {
    let head = text.unicodeScalars.prefix(limit).map { isControl($0) ? "?" : String($0) }.joined()
    return "\"\(head)\(text.unicodeScalars.count > limit ? "…" : "")\""
}

/// The path of a file in quotes: whole, because its end says most.
func quotedForMessage(path: String) -> String {
    quotedForMessage(path, limit: 4_096)
}

/// The contents of the file at `path`; an error continues a sentence that begins with its name.
func readNamedFile(_ path: String, maximumBytes: Int) throws(Mistake) -> Data {
    do {
        return Data(try File.read(path, limit: maximumBytes))
    } catch {
        throw Mistake(error.reason)
    }
}
