import CampanileCore
import Foundation

/// The screens of a link that the tree has.
struct DeepLinkReach {
    var steps: [DeepLinkTree.Match.Step]
    /// The last screen's query; empty if that isn't the link's screen.
    var query: [ExactText: DeepLinkTree.Value] = [:]
    /// The fault of the rest; nil for none.
    var mistake: DeepLinkTree.Mistake?
}

extension DeepLinkRouter {
    /// Follows a link that may be newer than the app's tree: ignores a query key that the screen doesn't know, and ends
    /// at the parent of an unknown segment, or of a screen whose query key is missing or ill-typed.
    func reach(of link: DeepLink) -> DeepLinkReach {
        do {
            let match = try tree.resolve(link)
            return DeepLinkReach(steps: match.steps, query: match.query)
        } catch {
            let known = tree.knownPart(of: link).steps
            guard known.count == link.segments.count, let last = known.last else {
                return DeepLinkReach(steps: known, mistake: error)
            }
            let kept = link.query.filter { item in last.node.query.contains { ExactText($0.key) == item.key } }
            // By scalars: a ? with a combining accent still ends the path.
            let path = String(link.text.unicodeScalars.prefix { $0 != "?" && $0 != "#" })
            if let bare = try? DeepLink(DeepLinkReach.withQuery(path, kept)), let match = try? tree.resolve(bare) {
                return DeepLinkReach(steps: match.steps, query: match.query, mistake: error)
            }
            return DeepLinkReach(steps: known.dropLast(), mistake: error)
        }
    }

    /// The link in an address; nil if the address is another site's or scheme's.
    static func link(_ url: URL, hosts: Set<String>, schemes: Set<String>) -> String? {
        guard let scheme = url.scheme?.lowercased() else { return nil }
        let text = url.absoluteString.dropFirst(scheme.count + 1)
        if scheme == "http" || scheme == "https" {
            guard let host = url.host?.lowercased(), hosts.contains(where: { $0.lowercased() == host }) else { return nil }
            // The host is between // and the path's /.
            let path = text.dropFirst(2).drop { $0 != "/" && $0 != "?" && $0 != "#" }
            return String(path.drop { $0 == "/" })
        }
        guard schemes.contains(where: { $0.lowercased() == scheme }) else { return nil }
        return String(text.drop { $0 == "/" })
    }
}

extension DeepLinkReach {
    /// The link's values for each of the screens.
    /// - Parameter push: the push with this link.
    func values(in link: DeepLink, of push: PushPayload?) -> [DeepLinkValues] {
        let written = WrittenLink(link.text)
        var parameters: [ExactText: String] = [:]
        var path = ""
        return steps.enumerated().map { index, step in
            if let name = step.node.parameter { parameters[ExactText(name)] = step.segment }
            path += "/" + written.segments[index]
            let isLast = index == link.segments.count - 1
            let web = step.node.web.map { DeepLinkReach.filled($0, parameters) } ?? path
            let address = isLast ? written.address(web) : web
            return DeepLinkValues(
                link: link.text, page: DeepLinkPage(title: step.node.title, address: address), push: push,
                parameters: parameters, query: isLast ? query : [:])
        }
    }

    /// The address of a page, with the link's values for its path's parameters.
    private static func filled(_ web: String, _ parameters: [ExactText: String]) -> String {
        let rest = web.unicodeScalars.firstIndex { $0 == "?" || $0 == "#" } ?? web.endIndex
        let path = (web.utf8.first == UInt8(ascii: "/") ? "" : "/") + web[..<rest]
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).map { segment -> String in
            guard segment.hasPrefix(":"), let value = parameters[ExactText(String(segment.dropFirst()))] else {
                return String(segment)
            }
            return PercentEncoding.encode(value)
        }
        return segments.joined(separator: "/") + web[rest...]
    }

    static func withQuery(_ path: String, _ query: [DeepLink.QueryItem]) -> String {
        guard !query.isEmpty else { return path }
        let items = query.map { item in
            let key = PercentEncoding.encode(item.key.text)
            return item.value.isEmpty ? key : key + "=" + PercentEncoding.encode(item.value)
        }
        return path + (path.contains("?") ? "&" : "?") + items.joined(separator: "&")
    }
}

/// A link's parts as written, escaped where an address requires it. Decoding and encoding them again would change a `+`
/// of the query.
private struct WrittenLink {
    private typealias Part = Substring.UnicodeScalarView

    let segments: [String]
    private let query: Part?
    private let fragment: Part?

    init(_ text: String) {
        let (rest, fragment) = WrittenLink.parts(text[...].unicodeScalars, "#")
        let (path, query) = WrittenLink.parts(rest, "?")
        let relative = path.first == "/" ? path.dropFirst() : path
        segments = relative.split(separator: "/", omittingEmptySubsequences: false).map { WrittenLink.escaped($0, "") }
        self.query = query
        self.fragment = fragment
    }

    /// A page's address with the link's query, and with its fragment if it has one.
    func address(_ web: String) -> String {
        let (rest, own) = WrittenLink.parts(web[...].unicodeScalars, "#")
        var address = String(rest)
        if let query, !query.isEmpty { address += (rest.contains("?") ? "&" : "?") + WrittenLink.escaped(query, "/?") }
        if let fragment = fragment ?? own { address += "#" + WrittenLink.escaped(fragment, "/?") }
        return address
    }

    /// By scalars: a `/` with a combining accent is one character, and still ends a segment.
    private static func parts(_ text: Part, _ separator: Unicode.Scalar) -> (Part, Part?) {
        guard let index = text.firstIndex(of: separator) else { return (text, nil) }
        return (text[..<index], text[text.index(after: index)...])
    }

    /// Keeps the characters allowed in every part of an address (RFC 3986 section 3.3, `pchar`), and existing escapes.
    private static func escaped(_ part: Part, _ more: String) -> String {
        var escaped = ""
        for scalar in part {
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9": escaped.unicodeScalars.append(scalar)
            case _ where ("-._~!$&'()*+,;=:@%" + more).unicodeScalars.contains(scalar): escaped.unicodeScalars.append(scalar)
            default: escaped += PercentEncoding.encode(String(scalar))
            }
        }
        return escaped
    }
}

extension DeepLinkError.Reason {
    init(_ mistake: DeepLinkTree.Mistake) {
        switch mistake {
        case .unknownSegment(let segment, let below, let nearest):
            self = .unknownSegment(segment, below: below, nearest: nearest)
        case .query(let sentences): self = .query(sentences)
        }
    }
}
