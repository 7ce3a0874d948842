// The parts of UIKit that examples/ios uses, with as much behaviour as its shell depends on: stacks, tabs, presentations,
// and who appears and disappears when. Nothing is drawn. What is animated ends at `Screen.settle()`.
@_exported public import Foundation
@_exported public import FoundationNetworking

/// The screen of the one phone.
@MainActor
public enum Screen {
    private static var unfinished: [() -> Void] = []
    /// Presentations that UIKit refuses with a line in the log.
    public static var refused: [String] = []

    static func end(animated: Bool, _ body: @escaping () -> Void) {
        if animated { unfinished.append(body) } else { body() }
    }

    /// Ends the animations that have begun. Returns whether there were any.
    @discardableResult
    public static func settle() -> Bool {
        let bodies = unfinished
        unfinished = []
        for body in bodies { body() }
        return !bodies.isEmpty
    }
}

@MainActor open class UIResponder: NSObject {
    nonisolated override public init() { super.init() }
}

// MARK: - View controllers

public enum UIModalPresentationStyle: Int, Sendable {
    case automatic = -2, none = -1, fullScreen = 0, pageSheet, formSheet, currentContext, custom, overFullScreen
}

@MainActor open class UIViewController: UIResponder {
    public init(nibName: String?, bundle: Bundle?) { super.init() }
    public required init?(coder: NSCoder) { nil }
    nonisolated override public init() { super.init() }

    private lazy var loadedView: UIView = {
        isViewLoaded = true
        return UIView()
    }()
    public private(set) var isViewLoaded = false
    open var view: UIView! {
        get {
            let isNew = !isViewLoaded
            let view = loadedView
            if isNew { viewDidLoad() }
            return view
        }
        set {}
    }
    open var title: String?
    public lazy var navigationItem = UINavigationItem()
    public lazy var tabBarItem: UITabBarItem! = UITabBarItem()
    open var modalPresentationStyle = UIModalPresentationStyle.automatic
    open var isModalInPresentation = false

    // Containers.
    public private(set) weak var parent: UIViewController?
    public private(set) var children: [UIViewController] = []
    public fileprivate(set) var isMovingToParent = false
    private var ancestors: [UIViewController] { [self] + (parent?.ancestors ?? []) }
    public var navigationController: UINavigationController? {
        ancestors.dropFirst().lazy.compactMap { $0 as? UINavigationController }.first
    }
    public var tabBarController: UITabBarController? { ancestors.lazy.compactMap { $0 as? UITabBarController }.first }
    public func addChild(_ child: UIViewController) {
        child.parent = self
        children.append(child)
    }
    public func willMove(toParent: UIViewController?) {}
    public func didMove(toParent: UIViewController?) {}
    public func removeFromParent() {
        parent?.children.removeAll { $0 === self }
        parent = nil
    }

    // Appearance. A container passes each on to the child that shows.
    private(set) var isOnScreen = false
    var shown: UIViewController? { nil }
    open func viewDidLoad() {}
    open func viewWillAppear(_ animated: Bool) {
        _ = view
        shown?.viewWillAppear(animated)
    }
    open func viewDidAppear(_ animated: Bool) {
        isOnScreen = true
        shown?.viewDidAppear(animated)
    }
    open func viewWillDisappear(_ animated: Bool) { shown?.viewWillDisappear(animated) }
    open func viewDidDisappear(_ animated: Bool) {
        isOnScreen = false
        shown?.viewDidDisappear(animated)
    }

    // Presentations. A controller inside a container has it presented by the outermost one.
    private var presented: UIViewController?
    private weak var presenting: UIViewController?
    public private(set) var isBeingDismissed = false
    private var presentation: UIPresentationController?
    public var presentedViewController: UIViewController? { ancestors.lazy.compactMap(\.presented).first }
    public var presentingViewController: UIViewController? { ancestors.lazy.compactMap(\.presenting).first }
    public var presentationController: UIPresentationController? { ancestors.last?.presentation }
    private var coversAll: Bool { modalPresentationStyle == .fullScreen }

    open func present(_ controller: UIViewController, animated flag: Bool, completion: (() -> Void)? = nil) {
        let presenter = ancestors.last ?? self
        guard presenter.isOnScreen, presenter.presented == nil else {
            Screen.refused.append("\(type(of: controller)): \(presenter.isOnScreen ? "already presenting" : "not on the screen")")
            return
        }
        presenter.presented = controller
        controller.presenting = presenter
        controller.presentation = UIPresentationController(controller)
        if controller.coversAll { presenter.viewWillDisappear(flag) }
        controller.viewWillAppear(flag)
        Screen.end(animated: flag) {
            if controller.coversAll { presenter.viewDidDisappear(flag) }
            controller.viewDidAppear(flag)
            completion?()
        }
    }

    open func dismiss(animated flag: Bool, completion: (() -> Void)? = nil) {
        let presenter = ancestors.first { $0.presented != nil } ?? presentingViewController
        guard let presenter, let controller = presenter.presented, !controller.isBeingDismissed else {
            completion?()
            return
        }
        if controller.presented != nil { controller.dismiss(animated: false) }
        controller.isBeingDismissed = true
        controller.viewWillDisappear(flag)
        if controller.coversAll { presenter.viewWillAppear(flag) }
        Screen.end(animated: flag) {
            controller.viewDidDisappear(flag)
            controller.isBeingDismissed = false
            (presenter.presented, controller.presenting, controller.presentation) = (nil, nil, nil)
            if controller.coversAll { presenter.viewDidAppear(flag) }
            completion?()
        }
    }

    /// The user pulls the sheet down.
    public func pullDown() {
        guard let controller = presentedViewController, !controller.isModalInPresentation,
            (controller as? UINavigationController)?.topViewController?.isModalInPresentation != true
        else { return }
        let presentation = controller.presentationController
        controller.presenting?.dismiss(animated: true)
        Screen.settle()
        if let presentation { presentation.delegate?.presentationControllerDidDismiss(presentation) }
    }
}

@MainActor open class UIPresentationController: NSObject {
    public let presentedViewController: UIViewController
    public weak var delegate: (any UIAdaptivePresentationControllerDelegate)?
    init(_ presented: UIViewController) { presentedViewController = presented }
}

@MainActor public protocol UIAdaptivePresentationControllerDelegate: NSObjectProtocol {
    func presentationControllerDidDismiss(_ presentationController: UIPresentationController)
}

// MARK: - Stacks

@MainActor public protocol UINavigationControllerDelegate: NSObjectProtocol {
    func navigationController(
        _ navigationController: UINavigationController, willShow viewController: UIViewController, animated: Bool)
    func navigationController(
        _ navigationController: UINavigationController, didShow viewController: UIViewController, animated: Bool)
}

@MainActor open class UINavigationController: UIViewController {
    override public init(nibName: String?, bundle: Bundle?) { super.init(nibName: nibName, bundle: bundle) }
    public required init?(coder: NSCoder) { nil }

    public weak var delegate: (any UINavigationControllerDelegate)?
    private var stack: [UIViewController] = []
    open var viewControllers: [UIViewController] {
        get { stack }
        set { setViewControllers(newValue, animated: false) }
    }
    public var topViewController: UIViewController? { stack.last }
    override var shown: UIViewController? { stack.last }

    open func pushViewController(_ controller: UIViewController, animated: Bool) { change(to: stack + [controller], animated) }

    @discardableResult
    open func popViewController(animated: Bool) -> UIViewController? {
        guard stack.count > 1, let top = stack.last else { return nil }
        change(to: Array(stack.dropLast()), animated)
        return top
    }

    @discardableResult
    open func popToRootViewController(animated: Bool) -> [UIViewController]? {
        let popped = Array(stack.dropFirst())
        if !popped.isEmpty { change(to: Array(stack.prefix(1)), animated) }
        return popped
    }

    open func setViewControllers(_ controllers: [UIViewController], animated: Bool) { change(to: controllers, animated) }

    /// The page that the stack showed before the changes that nobody has been told of yet.
    private var before: UIViewController?
    private var isChanging = false

    /// The stack changes at once. Who appears and disappears is told when the screen is laid out, once for several changes.
    private func change(to controllers: [UIViewController], _ animated: Bool) {
        let showed = stack.last
        for old in stack where !controllers.contains(where: { $0 === old }) { old.removeFromParent() }
        for new in controllers where new.parent !== self {
            addChild(new)
            new.isMovingToParent = true
        }
        stack = controllers
        guard isOnScreen, !isChanging else { return }
        (before, isChanging) = (showed, true)
        Screen.end(animated: true) { [self] in layOut(animated) }
    }

    private func layOut(_ animated: Bool) {
        guard isChanging else { return }
        let (old, new) = (before, stack.last)
        (before, isChanging) = (nil, false)
        guard old !== new else { return }
        old?.viewWillDisappear(animated)
        new?.viewWillAppear(animated)
        if let new { delegate?.navigationController(self, willShow: new, animated: animated) }
        Screen.end(animated: animated) { [self] in
            old?.viewDidDisappear(animated)
            new?.isMovingToParent = false
            guard let new, stack.last === new, isOnScreen else { return }
            new.viewDidAppear(animated)
            delegate?.navigationController(self, didShow: new, animated: animated)
        }
    }

    open override func viewWillAppear(_ animated: Bool) {
        super.viewWillAppear(animated)
        if let shown { delegate?.navigationController(self, willShow: shown, animated: animated) }
    }

    open override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        shown?.isMovingToParent = false
        if let shown { delegate?.navigationController(self, didShow: shown, animated: animated) }
    }

    open override func viewWillDisappear(_ animated: Bool) {
        layOut(false)
        super.viewWillDisappear(animated)
    }
}

// MARK: - Tabs

@MainActor public protocol UITabBarControllerDelegate: NSObjectProtocol {
    func tabBarController(_ tabBarController: UITabBarController, didSelect viewController: UIViewController)
}

@MainActor open class UITab: NSObject {
    public let title: String
    public let image: UIImage?
    public let identifier: String
    let viewController: UIViewController
    open var badgeValue: String?
    public init(title: String, image: UIImage?, identifier: String, viewController: UIViewController) {
        (self.title, self.image, self.identifier, self.viewController) = (title, image, identifier, viewController)
    }
}

@MainActor open class UITabBarController: UIViewController {
    override public init(nibName: String?, bundle: Bundle?) { super.init(nibName: nibName, bundle: bundle) }
    public required init?(coder: NSCoder) { nil }

    public weak var delegate: (any UITabBarControllerDelegate)?
    open var viewControllers: [UIViewController]? {
        willSet {
            guard isOnScreen else { return }
            shown?.viewWillDisappear(false)
            shown?.viewDidDisappear(false)
        }
        didSet {
            for old in oldValue ?? [] { old.removeFromParent() }
            for new in viewControllers ?? [] { addChild(new) }
            if isOnScreen {
                shown?.viewWillAppear(false)
                shown?.viewDidAppear(false)
            }
        }
    }
    override var shown: UIViewController? {
        viewControllers.flatMap { $0.indices.contains(selectedIndex) ? $0[selectedIndex] : nil }
    }
    private var selection = 0
    open var selectedIndex: Int {
        get { selection }
        set {
            guard newValue != selection else { return }
            let before = shown
            if isOnScreen { before?.viewWillDisappear(false) }
            selection = newValue
            guard isOnScreen else { return }
            shown?.viewWillAppear(false)
            before?.viewDidDisappear(false)
            shown?.viewDidAppear(false)
        }
    }

    /// From iOS 18 on, the bar shows what is said of these rather than of the pages' items.
    open var tabs: [UITab] = [] {
        didSet { viewControllers = tabs.map(\.viewController) }
    }
    open var selectedTab: UITab? {
        get { tabs.indices.contains(selectedIndex) ? tabs[selectedIndex] : nil }
        set { if let index = tabs.firstIndex(where: { $0 === newValue }) { selectedIndex = index } }
    }
    open func tab(forIdentifier identifier: String) -> UITab? { tabs.first { $0.identifier == identifier } }

    /// The user taps a tab. Under something that is presented they can't.
    public func userSelects(_ index: Int) {
        precondition(presentedViewController == nil, "something stands over the tabs")
        selectedIndex = index
        if let shown { delegate?.tabBarController(self, didSelect: shown) }
    }
}

@MainActor open class UIWindow: UIView {
    public init(windowScene: UIWindowScene) { super.init(frame: .zero) }
    public required init?(coder: NSCoder) { nil }
    open var rootViewController: UIViewController?
    open func makeKeyAndVisible() {
        rootViewController?.viewWillAppear(false)
        rootViewController?.viewDidAppear(false)
    }
}

// MARK: - Scenes and the application

@MainActor open class UIOpenURLContext: NSObject {
    public let url: URL
    public init(_ url: URL) { self.url = url }
}

@MainActor open class UIScene: UIResponder {
    @MainActor open class ConnectionOptions: NSObject {
        public var urlContexts: Set<UIOpenURLContext> = []
        public var userActivities: Set<NSUserActivity> = []
    }
}

@MainActor open class UIWindowScene: UIScene {}
@MainActor open class UISceneSession: NSObject {}

@MainActor public protocol UISceneDelegate: NSObjectProtocol {
    func scene(
        _ scene: UIScene, willConnectTo session: UISceneSession, options connectionOptions: UIScene.ConnectionOptions)
    func sceneDidDisconnect(_ scene: UIScene)
    func sceneWillEnterForeground(_ scene: UIScene)
    func scene(_ scene: UIScene, openURLContexts URLContexts: Set<UIOpenURLContext>)
    func scene(_ scene: UIScene, continue userActivity: NSUserActivity)
}

@MainActor public protocol UIWindowSceneDelegate: UISceneDelegate {
    var window: UIWindow? { get set }
}

public enum UIBackgroundFetchResult: UInt, Sendable { case newData, noData, failed }

@MainActor open class UIApplication: UIResponder {
    public struct LaunchOptionsKey: Hashable, Sendable {}
    public static let shared = UIApplication()
    /// The app's calls to the system.
    public var asked: [String] = []
    open func registerForRemoteNotifications() { asked.append("register") }
    open func unregisterForRemoteNotifications() { asked.append("unregister") }
    open func open(_ url: URL) { asked.append("open \(url.absoluteString)") }
}

@MainActor public protocol UIApplicationDelegate: NSObjectProtocol {
    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
}
