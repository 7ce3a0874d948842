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
            let path = String(link.text.prefix { $0 != "?" && $0 != "#" })
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
    func values(in link: DeepLink) -> [DeepLinkValues] {
        var parameters: [ExactText: String] = [:]
        var path = ""
        return steps.enumerated().map { index, step in
            if let name = step.node.parameter { parameters[ExactText(name)] = step.segment }
            path += "/" + PercentEncoding.encode(step.segment)
            let isLast = index == link.segments.count - 1
            let web = step.node.web.map { DeepLinkReach.filled($0, parameters) } ?? path
            let address = isLast ? DeepLinkReach.withQuery(web, link.query) : web
            return DeepLinkValues(
                link: link.text, page: DeepLinkPage(title: step.node.title, address: address), parameters: parameters,
                query: isLast ? query : [:])
        }
    }

    /// The path of a page, with the link's values in the place of its parameters.
    private static func filled(_ web: String, _ parameters: [ExactText: String]) -> String {
        let path = web.utf8.first == UInt8(ascii: "/") ? web : "/" + web
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).map { segment -> String in
            guard segment.hasPrefix(":"), let value = parameters[ExactText(String(segment.dropFirst()))] else {
                return String(segment)
            }
            return PercentEncoding.encode(value)
        }
        return segments.joined(separator: "/")
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

extension DeepLinkError.Reason {
    init(_ mistake: DeepLinkTree.Mistake) {
        switch mistake {
        case .unknownSegment(let segment, let below, let nearest):
            self = .unknownSegment(segment, below: below, nearest: nearest)
        case .query(let sentences): self = .query(sentences)
        }
    }
}
