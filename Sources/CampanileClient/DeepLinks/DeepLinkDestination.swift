/// The object that shows screens: the app's coordinator, or its scene delegate.
@MainActor
public protocol DeepLinkCoordinator: AnyObject, Sendable {
    /// Prepares for opening a link: dismiss modal screens and go to the beginning of its chain.
    func prepareForDeepLink()
    /// Shows a page of the web site, for a node of the tree without a type in the app.
    /// - Parameter animated: true only for the last of a chain.
    func show(_ page: DeepLinkPage, animated: Bool)
}

/// One screen of a chain.
public protocol DeepLinkDestination<Coordinator>: Sendable {
    associatedtype Coordinator: DeepLinkCoordinator
    /// Shows it above the previous one.
    /// - Parameter animated: true only for the last of a chain.
    @MainActor func show(in coordinator: Coordinator, animated: Bool)
}

/// A node of the tree, as a type of the app. To add a link, write one and give it to `DeepLinkRouter`:
///
///     struct Ranking: DeepLinkScreen {
///         static let path = "home/soptamp/current-generation-ranking"
///         let generation: Int
///         init(_ values: DeepLinkValues) throws { generation = try values.query("currentGeneration") }
///         func show(in coordinator: AppCoordinator, animated: Bool) {
///             coordinator.push(RankingViewController(generation), animated: animated)
///         }
///     }
public protocol DeepLinkScreen<Coordinator>: DeepLinkDestination {
    /// The node's path in the tree, such as `resources/:id/detail`.
    static var path: String { get }
    /// - Throws: when it can't be shown with these values; the chain then ends at its parent.
    init(_ values: DeepLinkValues) throws
}

/// A page of the web site.
public struct DeepLinkPage: Hashable, Sendable {
    /// The node's title.
    public let title: String?
    /// Path and query, beginning with `/`: the node's `web` with its parameters filled in, or without `web` the link
    /// itself.
    public let address: String

    public init(title: String? = nil, address: String) {
        self.title = title
        self.address = address
    }
}
