import CampanileCore

/// The scheme of a page's address.
enum WebScheme: String, CaseIterable, Sendable {
    case https, http
}

/// The pages that may connect: those of our own host, and those of the configured origins. A script's request across origins
/// carries its Origin (WHATWG Fetch), so that one without is a native client's, or something that a page only embeds.
struct OriginRule: Sendable {
    private let allowed: Set<ExactText>

    /// - Parameter allowed: origins such as `https://example.com:8443`.
    init(allowed: [String]) {
        self.allowed = Set(allowed.map(OriginRule.normal))
    }

    /// - Parameters:
    ///   - scheme: what the page's scheme must be for it to be of our own host; nil: either.
    ///   - headers: all values of a header field by its name in lower case.
    func allows(scheme: WebScheme?, _ headers: (StaticString) -> [String]) -> Bool {
        let origins = headers("origin")
        guard let origin = origins.first else { return true }
        guard origins.count == 1 else { return false }
        return names(origin) || isSameOrigin(origin, scheme, headers)
    }

    /// Returns whether the configuration names this origin.
    func names(_ origin: String) -> Bool { allowed.contains(OriginRule.normal(origin)) }

    /// True if the configuration names none.
    var isEmpty: Bool { allowed.isEmpty }

    /// `scheme://Host`. TLS ends before us, so the scheme is what a trusted proxy says it was, or either if none says.
    private func isSameOrigin(_ origin: String, _ scheme: WebScheme?, _ headers: (StaticString) -> [String]) -> Bool {
        guard let host = headers("host").first, !host.isEmpty else { return false }
        let schemes = scheme.map { [$0] } ?? WebScheme.allCases
        return schemes.contains { OriginRule.normal("\($0.rawValue)://\(host)") == OriginRule.normal(origin) }
    }

    /// Lower case, and without the scheme's own port: browsers leave it out, people write it.
    private static func normal(_ origin: String) -> ExactText {
        let text = origin.lowercasedASCII
        for (scheme, port) in [("https://", ":443"), ("http://", ":80")] where text.hasPrefix(scheme) && text.hasSuffix(port) {
            return ExactText(String(text.dropLast(port.count)))
        }
        return ExactText(text)
    }
}
