public import CampanileCore
public import Foundation

/// Turns a link into the chain of screens that lead to it, parents first.
///
/// The tree lists the links; the server checks producers' links with the same one (`CampanileAPI.deepLinks`). The types
/// decide what the app shows. A node without a type is a page of the web site.
public struct DeepLinkRouter<Coordinator: DeepLinkCoordinator>: Sendable {
    public typealias Destination = any DeepLinkDestination<Coordinator>
    private typealias Make = @Sendable (DeepLinkValues) throws -> Destination

    public let tree: DeepLinkTree
    private let screens: [String: Make]

    /// - Parameter screens: the app's types, in any order. One whose path isn't in the tree is never shown: see
    ///   `unreachable`.
    public init(_ tree: DeepLinkTree, _ screens: [any DeepLinkScreen<Coordinator>.Type]) {
        self.tree = tree
        var made: [String: Make] = [:]
        for screen in screens { made[DeepLinkRouter.path(of: screen)] = DeepLinkRouter.make(screen) }
        self.screens = made
    }

    /// The paths of the types that aren't in the tree: for a test of the app.
    public var unreachable: [String] { Set(screens.keys).subtracting(tree.paths).sorted() }

    /// The screens of a link. An unknown child, or one that can't be shown, leads to its deepest known parent, and the
    /// chain says why.
    /// - Throws: `DeepLinkError` when even the first screen is unknown.
    public func chain(_ link: String) throws(DeepLinkError) -> DeepLinkChain<Coordinator> { try chain(link, of: nil) }

    private func chain(_ link: String, of push: PushPayload?) throws(DeepLinkError) -> DeepLinkChain<Coordinator> {
        let parsed: DeepLink
        do {
            parsed = try DeepLink(link)
        } catch {
            throw DeepLinkError(link, .malformed(error.sentence))
        }
        let reach = reach(of: parsed)
        var problem = reach.mistake.map { DeepLinkError(link, .init($0)) }
        var destinations: [Destination] = []
        for (index, values) in reach.values(in: parsed, of: push).enumerated() {
            let path = reach.steps[...index].map(\.node.segment).joined(separator: "/")
            do {
                destinations.append(try destination(path, values))
            } catch {
                // Leaves out a parent that can't be shown; the chain keeps the last one's reason.
                guard index == reach.steps.count - 1 else { continue }
                problem = error as? DeepLinkError ?? DeepLinkError(link, .screen(String(describing: error)))
            }
        }
        if destinations.isEmpty { throw problem ?? DeepLinkError(link, .malformed("names no screen.")) }
        return DeepLinkChain(link: link, destinations: destinations, problem: problem)
    }

    /// The screens of a push's link, which get the push too (`DeepLinkValues.push`); nil for a push without a link.
    public func chain(_ payload: PushPayload) throws(DeepLinkError) -> DeepLinkChain<Coordinator>? {
        guard let link = payload.deepLink else { return nil }
        return try chain(link, of: payload)
    }

    /// The screens of an address: a universal link of one of the app's hosts, or one with the app's own scheme
    /// (`shop://home/soptamp`).
    public func chain(
        _ url: URL, hosts: Set<String> = [], schemes: Set<String> = []
    ) throws(DeepLinkError) -> DeepLinkChain<Coordinator> {
        guard let link = DeepLinkRouter.link(url, hosts: hosts, schemes: schemes) else {
            throw DeepLinkError(url.absoluteString, .foreign)
        }
        return try chain(link)
    }

    private func destination(_ path: String, _ values: DeepLinkValues) throws -> Destination {
        if let make = screens[path] { return try make(values) }
        return PageDestination<Coordinator>(page: values.page)
    }

    private static func path<Screen: DeepLinkScreen<Coordinator>>(of screen: Screen.Type) -> String {
        Screen.path.split(separator: "/").joined(separator: "/")
    }

    private static func make<Screen: DeepLinkScreen<Coordinator>>(_ screen: Screen.Type) -> Make {
        { values in try Screen(values) }
    }
}

/// The screens that lead to a link, parents first.
public struct DeepLinkChain<Coordinator: DeepLinkCoordinator>: Sendable {
    public let link: String
    public let destinations: [any DeepLinkDestination<Coordinator>]
    /// The reason why it doesn't lead to the link's screen, or the part of the link that it ignored; nil if it leads there.
    public let problem: DeepLinkError?

    /// Shows the screens one above the other.
    @MainActor
    public func open(in coordinator: Coordinator) {
        coordinator.prepareForDeepLink()
        for (index, destination) in destinations.enumerated() {
            destination.show(in: coordinator, animated: index == destinations.count - 1)
        }
    }
}

/// A node without a type of the app.
struct PageDestination<Coordinator: DeepLinkCoordinator>: DeepLinkDestination {
    let page: DeepLinkPage

    func show(in coordinator: Coordinator, animated: Bool) { coordinator.show(page, animated: animated) }
}
