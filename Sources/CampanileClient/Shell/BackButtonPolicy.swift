public import Foundation

/// The item at the left of the navigation bar.
public struct BackButtonPolicy: Hashable, Sendable {
    public enum Button: Hashable, Sendable {
        /// None: the root of a tab, or a page without a way back.
        case none
        /// The arrow without a title: `UINavigationItem.BackButtonDisplayMode.minimal`.
        case minimal
        /// Closes a modal: its first page has no page behind it.
        case close
    }

    private let final: [ResourcePath]

    /// - Parameter final: pages without a way back, such as `/orders/:id/thanks`, where the form behind them is done.
    public init(final: [ResourcePath] = []) { self.final = final }

    /// - Parameter depth: the number of pages below it in its stack.
    public func button(for page: URL?, depth: Int, isModal: Bool = false) -> Button {
        if depth <= 0 { return isModal ? .close : .none }
        return final.contains { $0.isWhole(page) } ? .none : .minimal
    }
}
