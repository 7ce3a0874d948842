import CampanileClient
import UIKit

/// The menu at the left. Its entries take their ids from the page that shows: on `/resources/123/detail`, Members leads to
/// `/resources/123/members`.
final class SideMenu: UIViewController {
    static let entries = [
        MenuEntry("All resources", icon: "square.grid.2x2", path: "/resources"),
        // On a page without an id: shown, and can't be chosen.
        MenuEntry("Detail", icon: "doc.text", path: "/resources/:id/detail"),
        // On a page without an id: leads to where one is chosen.
        MenuEntry("Members", icon: "person.2", path: "/resources/:id/members", otherwise: .path("/resources")),
    ]

    private let page: URL?
    private let chosen: (String) -> Void

    /// - Parameter chosen: is given the path of the entry, when the menu has gone.
    init(on page: URL?, chosen: @escaping (String) -> Void) {
        self.page = page
        self.chosen = chosen
        super.init(nibName: nil, bundle: nil)
        modalPresentationStyle = .overFullScreen
    }

    @available(*, unavailable, message: "there is no storyboard")
    required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        let list = UIStackView(arrangedSubviews: SideMenu.entries.map(button))
        list.axis = .vertical
        list.alignment = .leading
        list.spacing = 4
        let panel = UIView()
        panel.backgroundColor = .systemBackground
        let close = UIAction { [weak self] _ in self?.dismiss(animated: true) }
        let outside = UIButton(configuration: .plain(), primaryAction: close)
        for (child, parent) in [(outside, view), (panel, view), (list, panel)] as [(UIView, UIView?)] {
            child.translatesAutoresizingMaskIntoConstraints = false
            parent?.addSubview(child)
        }
        NSLayoutConstraint.activate(edges(outside, of: view))
        NSLayoutConstraint.activate([
            panel.leadingAnchor.constraint(equalTo: view.leadingAnchor),
            panel.topAnchor.constraint(equalTo: view.topAnchor),
            panel.bottomAnchor.constraint(equalTo: view.bottomAnchor),
            panel.trailingAnchor.constraint(equalTo: view.centerXAnchor, constant: 80),
            list.leadingAnchor.constraint(equalTo: panel.leadingAnchor, constant: 16),
            list.topAnchor.constraint(equalTo: panel.safeAreaLayoutGuide.topAnchor, constant: 24),
        ])
    }

    private func button(_ entry: MenuEntry) -> UIButton {
        let target = entry.target(on: page)
        var look = UIButton.Configuration.plain()
        look.title = entry.title
        look.image = entry.icon.flatMap { UIImage(systemName: $0) }
        look.imagePadding = 12
        look.baseForegroundColor = target == .disabled ? .secondaryLabel : .label
        let button = UIButton(configuration: look, primaryAction: UIAction { [weak self] _ in self?.choose(target) })
        button.isEnabled = target != .disabled
        return button
    }

    private func choose(_ target: MenuEntry.Target) {
        guard case .path(let path) = target else { return }
        dismiss(animated: true) { [chosen] in chosen(path) }
    }

    private func edges(_ view: UIView, of other: UIView) -> [NSLayoutConstraint] {
        [
            view.leadingAnchor.constraint(equalTo: other.leadingAnchor),
            view.trailingAnchor.constraint(equalTo: other.trailingAnchor),
            view.topAnchor.constraint(equalTo: other.topAnchor),
            view.bottomAnchor.constraint(equalTo: other.bottomAnchor),
        ]
    }
}
