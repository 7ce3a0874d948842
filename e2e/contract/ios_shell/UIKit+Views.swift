// Views, bar items and images of UIKit: what the app says of them is kept, and a button can be tapped.
public import Foundation

extension NSObject {
    @MainActor private static var labels: [ObjectIdentifier: String] = [:]
    @MainActor public var accessibilityLabel: String? {
        get { NSObject.labels[ObjectIdentifier(self)] }
        set { NSObject.labels[ObjectIdentifier(self)] = newValue }
    }
}

open class NSUserActivity: NSObject {
    public let activityType: String
    public var webpageURL: URL?
    public init(activityType: String) { self.activityType = activityType }
}

public let NSUserActivityTypeBrowsingWeb = "NSUserActivityTypeBrowsingWeb"

public struct NSDirectionalEdgeInsets: Equatable, Sendable {
    public init(top: CGFloat, leading: CGFloat, bottom: CGFloat, trailing: CGFloat) {}
}

/// The system has every symbol, and the app no image of its own.
open class UIImage: NSObject, @unchecked Sendable {
    public enum RenderingMode: Int, Sendable { case automatic, alwaysOriginal, alwaysTemplate }
    public let name: String
    public let size: CGSize
    init(_ name: String, _ size: CGSize) { (self.name, self.size) = (name, size) }
    override public convenience init() { self.init("", .zero) }
    public convenience init?(systemName name: String) { self.init(name, CGSize(width: 24, height: 24)) }
    public convenience init?(named name: String) { return nil }
    open func draw(at point: CGPoint) { UIGraphicsImageRenderer.drawn = "\(name) at \(Int(point.y))" }
    open func withRenderingMode(_ renderingMode: UIImage.RenderingMode) -> UIImage { self }
}

open class UIGraphicsImageRendererContext: NSObject {}

open class UIGraphicsImageRenderer: NSObject {
    nonisolated(unsafe) fileprivate static var drawn = ""
    private let size: CGSize
    public init(size: CGSize) { self.size = size }
    open func image(actions: (UIGraphicsImageRendererContext) -> Void) -> UIImage {
        actions(UIGraphicsImageRendererContext())
        return UIImage(UIGraphicsImageRenderer.drawn, size)
    }
}

open class UIColor: NSObject, @unchecked Sendable {
    public static let systemBackground = UIColor()
    public static let label = UIColor()
    public static let secondaryLabel = UIColor()
    public static let systemRed = UIColor()
}

open class UIFont: NSObject, @unchecked Sendable {
    public enum TextStyle: Sendable { case headline, body }
    public class func preferredFont(forTextStyle style: UIFont.TextStyle) -> UIFont { UIFont() }
}

public enum NSTextAlignment: Int, Sendable { case left, center, right }

@MainActor open class UIView: UIResponder {
    public init(frame: CGRect) { super.init() }
    public required init?(coder: NSCoder) { super.init() }
    nonisolated override public init() { super.init() }
    open var backgroundColor: UIColor?
    open var translatesAutoresizingMaskIntoConstraints = true
    public lazy var safeAreaLayoutGuide = UILayoutGuide()
    public lazy var leadingAnchor = NSLayoutXAxisAnchor()
    public lazy var trailingAnchor = NSLayoutXAxisAnchor()
    public lazy var centerXAnchor = NSLayoutXAxisAnchor()
    public lazy var centerYAnchor = NSLayoutYAxisAnchor()
    public lazy var topAnchor = NSLayoutYAxisAnchor()
    public lazy var bottomAnchor = NSLayoutYAxisAnchor()
    public private(set) var subviews: [UIView] = []
    public private(set) weak var superview: UIView?
    open func addSubview(_ view: UIView) {
        view.removeFromSuperview()
        view.superview = self
        subviews.append(view)
    }
    open func removeFromSuperview() {
        superview?.subviews.removeAll { $0 === self }
        superview = nil
    }
    /// It, and what stands in it.
    public var all: [UIView] { [self] + subviews.flatMap(\.all) }
}

@MainActor open class UILayoutGuide: NSObject {
    public lazy var leadingAnchor = NSLayoutXAxisAnchor()
    public lazy var trailingAnchor = NSLayoutXAxisAnchor()
    public lazy var topAnchor = NSLayoutYAxisAnchor()
}

@MainActor open class NSLayoutAnchor<AnchorType: AnyObject>: NSObject {
    public func constraint(equalTo anchor: NSLayoutAnchor<AnchorType>) -> NSLayoutConstraint { NSLayoutConstraint() }
    public func constraint(equalTo anchor: NSLayoutAnchor<AnchorType>, constant c: CGFloat) -> NSLayoutConstraint {
        NSLayoutConstraint()
    }
}

@MainActor open class NSLayoutXAxisAnchor: NSLayoutAnchor<NSLayoutXAxisAnchor> {}
@MainActor open class NSLayoutYAxisAnchor: NSLayoutAnchor<NSLayoutYAxisAnchor> {}

@MainActor open class NSLayoutConstraint: NSObject {
    public enum Axis: Int, Sendable { case horizontal, vertical }
    public class func activate(_ constraints: [NSLayoutConstraint]) {}
}

@MainActor open class UILabel: UIView {
    open var text: String?
    open var font: UIFont!
    open var numberOfLines = 1
    open var textAlignment = NSTextAlignment.left
}

@MainActor open class UIStackView: UIView {
    public enum Alignment: Int, Sendable { case fill, leading, center }
    override public init(frame: CGRect) { super.init(frame: frame) }
    public required init(coder: NSCoder) { super.init(frame: .zero) }
    public convenience init(arrangedSubviews views: [UIView]) {
        self.init(frame: .zero)
        for view in views { addSubview(view) }
    }
    open func addArrangedSubview(_ view: UIView) { addSubview(view) }
    open var axis = NSLayoutConstraint.Axis.horizontal
    open var alignment = Alignment.fill
    open var spacing: CGFloat = 0
}

public typealias UIActionHandler = (UIAction) -> Void

@MainActor open class UIMenuElement: NSObject {}
@MainActor open class UIMenu: UIMenuElement {}

@MainActor open class UIAction: UIMenuElement {
    public let handler: UIActionHandler
    public init(handler: @escaping UIActionHandler) { self.handler = handler }
}

@MainActor open class UIButton: UIView {
    public struct Configuration: Hashable {
        public static func plain() -> UIButton.Configuration { UIButton.Configuration() }
        public var title: String?
        public var image: UIImage?
        public var imagePadding: CGFloat = 0
        public var baseForegroundColor: UIColor?
        public var contentInsets: NSDirectionalEdgeInsets {
            get { NSDirectionalEdgeInsets(top: 0, leading: 0, bottom: 0, trailing: 0) }
            set {}
        }
    }
    public var configuration: UIButton.Configuration?
    public var isEnabled = true
    private var action: UIAction?
    public convenience init(configuration: UIButton.Configuration, primaryAction: UIAction? = nil) {
        self.init(frame: .zero)
        (self.configuration, action) = (configuration, primaryAction)
    }
    public func tap() {
        if isEnabled, let action { action.handler(action) }
    }
}

@MainActor open class UIBarItem: NSObject {
    nonisolated override public init() { super.init() }
    open var title: String?
    open var image: UIImage?
    open var tag = 0
}

@MainActor open class UIBarButtonItem: UIBarItem {
    public enum SystemItem: Int, Sendable { case done, close }
    public private(set) var customView: UIView?
    public private(set) var systemItem: SystemItem?
    private var action: UIAction?
    public convenience init(systemItem: UIBarButtonItem.SystemItem, primaryAction: UIAction? = nil, menu: UIMenu? = nil) {
        self.init()
        (self.systemItem, action) = (systemItem, primaryAction)
    }
    public convenience init(
        title: String? = nil, image: UIImage? = nil, primaryAction: UIAction? = nil, menu: UIMenu? = nil
    ) {
        self.init()
        (self.title, self.image, action) = (title, image, primaryAction)
    }
    public convenience init(customView: UIView) {
        self.init()
        self.customView = customView
    }
    public func tap() {
        (customView as? UIButton)?.tap()
        if let action { action.handler(action) }
    }
}

@MainActor open class UITabBarItem: UIBarItem {
    public private(set) var selectedImage: UIImage?
    open var badgeValue: String?
    public convenience init(title: String?, image: UIImage?, selectedImage: UIImage?) {
        self.init()
        (self.title, self.image, self.selectedImage) = (title, image, selectedImage)
    }
}

@MainActor open class UINavigationItem: NSObject {
    public enum BackButtonDisplayMode: Int, Sendable { case `default`, generic, minimal }
    open var title: String?
    open var backButtonDisplayMode = BackButtonDisplayMode.default
    open var hidesBackButton = false
    open var leftItemsSupplementBackButton = false
    open var leftBarButtonItems: [UIBarButtonItem]?
    open var rightBarButtonItems: [UIBarButtonItem]?
}
