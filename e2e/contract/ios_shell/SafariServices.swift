public import UIKit

@MainActor open class SFSafariViewController: UIViewController {
    public enum DismissButtonStyle { case done, close, cancel }
    public let url: URL
    open var dismissButtonStyle = DismissButtonStyle.done
    public init(url: URL) {
        self.url = url
        super.init(nibName: nil, bundle: nil)
    }
    public required init?(coder: NSCoder) { nil }
}
