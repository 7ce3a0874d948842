import UIKit

/// Over a page that couldn't be loaded: why, and Retry where that may help. The library's own page has Retry always from
/// 1.3.0-beta on, even where it leads to a blank page.
final class FailureView: UIStackView {
    convenience init(_ message: String, retry: (() -> Void)?) {
        let label = UILabel()
        label.text = message
        label.font = .preferredFont(forTextStyle: .body)
        label.numberOfLines = 0
        label.textAlignment = .center
        self.init(arrangedSubviews: [label])
        axis = .vertical
        alignment = .center
        spacing = 16
        guard let retry else { return }
        var look = UIButton.Configuration.plain()
        look.title = "Retry"
        addArrangedSubview(UIButton(configuration: look, primaryAction: UIAction { _ in retry() }))
    }

    func fill(_ page: UIView) {
        translatesAutoresizingMaskIntoConstraints = false
        page.addSubview(self)
        NSLayoutConstraint.activate([
            leadingAnchor.constraint(equalTo: page.safeAreaLayoutGuide.leadingAnchor, constant: 32),
            centerXAnchor.constraint(equalTo: page.centerXAnchor),
            centerYAnchor.constraint(equalTo: page.centerYAnchor),
        ])
    }
}
