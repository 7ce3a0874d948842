import CampanileCore
import Foundation

/// How far the tree has the screens of a link.
struct DeepLinkReach {
    var steps: [DeepLinkTree.Match.Step]
    /// Of the last screen; empty when that isn't the link's.
    var query: [ExactText: DeepLinkTree.Value] = [:]
    /// What is wrong with the rest; nil: nothing.
    var mistake: DeepLinkTree.Mistake?
}

extension DeepLinkRouter {
    /// The app's tree may be older than the link: a query key that the screen doesn't know is passed over, and an unknown
    /// segment leads to its parent. So does a query key that is missing or ill-typed.
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
            // By scalars: a ? with an accent above it ends the path all the same.
            let path = String(link.text.unicodeScalars.prefix { $0 != "?" && $0 != "#" })
            if let bare = try? DeepLink(DeepLinkReach.withQuery(path, kept)), let match = try? tree.resolve(bare) {
                return DeepLinkReach(steps: match.steps, query: match.query, mistake: error)
            }
            return DeepLinkReach(steps: known.dropLast(), mistake: error)
        }
    }

    /// The link that an address stands for; nil when it is of another site or scheme.
    static func link(_ url: URL, hosts: Set<String>, schemes: Set<String>) -> String? {
        guard let scheme = url.scheme?.lowercased() else { return nil }
        let text = url.absoluteString.dropFirst(scheme.count + 1)
        if scheme == "http" || scheme == "https" {
            guard let host = url.host?.lowercased(), hosts.contains(where: { $0.lowercased() == host }) else { return nil }
            // What stands between // and the path's / is the host.
            let path = text.dropFirst(2).drop { $0 != "/" && $0 != "?" && $0 != "#" }
            return String(path.drop { $0 == "/" })
        }
        guard schemes.contains(where: { $0.lowercased() == scheme }) else { return nil }
        return String(text.drop { $0 == "/" })
    }
}

extension DeepLinkReach {
    /// What a link says to each of the screens.
    /// - Parameter push: whose link it is.
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

    /// The address of a page, with the link's values in the place of its path's parameters.
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

/// A link's parts as they were written, escaped where an address has to be. Decoded and encoded again, a `+` of the query
/// would mean something else.
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

    /// By scalars: a `/` with an accent above it is one character, and ends a segment all the same.
    private static func parts(_ text: Part, _ separator: Unicode.Scalar) -> (Part, Part?) {
        guard let index = text.firstIndex(of: separator) else { return (text, nil) }
        return (text[..<index], text[text.index(after: index)...])
    }

    /// What may stand in every part of an address (RFC 3986 section 3.3, `pchar`), and the escapes that are there, stay.
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
