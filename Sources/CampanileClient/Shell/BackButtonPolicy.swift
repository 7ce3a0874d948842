public import Foundation

/// What stands at the left of the navigation bar.
public struct BackButtonPolicy: Hashable, Sendable {
    public enum Button: Hashable, Sendable {
        /// The root of a tab, or a page that isn't left backwards.
        case none
        /// The arrow without a title: `UINavigationItem.BackButtonDisplayMode.minimal`.
        case minimal
        /// Closes what is modal: its first page has nothing behind it.
        case close
    }

    private let final: [ResourcePath]

    /// - Parameter final: pages that aren't left backwards, such as `/orders/:id/thanks`, where the form behind them is done.
    public init(final: [ResourcePath] = []) { self.final = final }

    /// - Parameter depth: how many pages lie below it in its stack.
    public func button(for page: URL?, depth: Int, isModal: Bool = false) -> Button {
        if depth <= 0 { return isModal ? .close : .none }
        return final.contains { $0.isWhole(page) } ? .none : .minimal
    }
}
