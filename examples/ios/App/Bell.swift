import CampanileClient
import UIKit

/// The bell at the right of every screen's bar: with a dot, tinted and with its number, when there is something new.
@MainActor
enum Bell {
    /// By which a screen's bell is known among its other items.
    static let tag = 3001

    static func item(count: Int, tapped: @escaping @MainActor () -> Void) -> UIBarButtonItem {
        let text = BadgeText.bell(count)
        var look = UIButton.Configuration.plain()
        look.image = UIImage(systemName: text == nil ? "bell" : "bell.badge")
        look.title = text
        look.imagePadding = 2
        look.contentInsets = NSDirectionalEdgeInsets(top: 8, leading: 4, bottom: 8, trailing: 4)
        look.baseForegroundColor = text == nil ? .label : .systemRed
        let button = UIButton(configuration: look, primaryAction: UIAction { _ in tapped() })
        button.accessibilityLabel = count > 0 ? "Notifications, \(count) new" : "Notifications"
        let item = UIBarButtonItem(customView: button)
        item.tag = tag
        return item
    }
}
