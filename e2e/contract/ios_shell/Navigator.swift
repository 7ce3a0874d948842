// Hotwire Native's Navigator, tab bar, path configuration and error page, made again from its sources at 1.3.0-beta; each rule
// names the file that it is from, under Source/Turbo. What 1.2.2 and main do otherwise is asked of `Library`.
public import UIKit
public import WebKit

public enum ProposalResult {
    case accept
    case acceptCustom(UIViewController)
    case reject
}

@MainActor public protocol NavigatorDelegate: AnyObject {
    typealias RetryBlock = () -> Void
    func handle(proposal: VisitProposal, from navigator: Navigator) -> ProposalResult
    func visitableDidFailRequest(_ visitable: any Visitable, error: PageFailure, retryHandler: RetryBlock?)
    func formSubmissionDidFinish(at url: URL)
}

extension NavigatorDelegate {
    public func formSubmissionDidFinish(at url: URL) {}
}

/// Navigator/Navigator.swift.
@MainActor public class Navigator {
    public weak var delegate: (any NavigatorDelegate)?
    public let rootViewController: UINavigationController = HotwireNavigationController(nibName: nil, bundle: nil)
    public let modalRootViewController: UINavigationController = HotwireNavigationController(nibName: nil, bundle: nil)
    /// Navigator/NavigationHierarchyController.swift: whatever is presented, by any tab.
    public var activeNavigationController: UINavigationController {
        rootViewController.presentedViewController != nil ? modalRootViewController : rootViewController
    }
    public let session = Session(Hotwire.config.makeWebView())
    public let modalSession = Session(Hotwire.config.makeWebView())
    private let startLocation: URL

    init(_ startLocation: URL, _ delegate: (any NavigatorDelegate)?) {
        (self.startLocation, self.delegate) = (startLocation, delegate)
        session.delegate = self
        modalSession.delegate = self
    }

    /// Only while both stacks are empty.
    public func start() {
        guard rootViewController.viewControllers.isEmpty, modalRootViewController.viewControllers.isEmpty else { return }
        route(startLocation)
    }

    public func route(_ url: URL) {
        route(VisitProposal(url: url, options: VisitOptions(), properties: Hotwire.config.pathConfiguration.properties(for: url)))
    }

    /// Routing/Router.swift: other hosts, not other ports, are opened elsewhere, and the delegate isn't asked.
    public func route(_ proposal: VisitProposal) {
        guard proposal.url.host == startLocation.host, let delegate else { return }
        switch delegate.handle(proposal: proposal, from: self) {
        case .accept: go(to: Hotwire.config.defaultViewController(proposal.url), proposal)
        case .acceptCustom(let screen): go(to: screen, proposal)
        case .reject: break
        }
    }

    public func reload() {
        session.reload()
        modalSession.reload()
    }

    // MARK: What its sessions say

    /// From 1.3.0-beta on a page that redirects is taken off its stack first.
    func proposed(_ proposal: VisitProposal, in session: Session) {
        if Library.version != .v1_2_2, proposal.options.response?.redirected == true {
            pop(animated: session === modalSession && proposal.context == .default)
        }
        route(proposal)
    }

    func finishedForm(in session: Session) {
        if session === modalSession { self.session.markSnapshotCacheAsStale() }
        if let page = session.topmostVisitable { delegate?.formSubmissionDidFinish(at: page.initialVisitableURL) }
    }

    /// Up to 1.3.0-beta the retry is a reload of what has completed its navigation; main visits a page that never did.
    func failed(_ visitable: any Visitable, _ error: PageFailure, in session: Session) {
        delegate?.visitableDidFailRequest(visitable, error: error) {
            if Library.version == .main, session.topmostVisitable == nil {
                session.visit(visitable, reload: true)
            } else {
                session.reload()
            }
        }
    }

    // MARK: Navigator/NavigationHierarchyController.swift

    private var isInModalContext: Bool {
        rootViewController.presentedViewController != nil && !modalRootViewController.isBeingDismissed
    }

    public func pop(animated: Bool = true) {
        if !isInModalContext {
            rootViewController.popViewController(animated: animated)
        } else if modalRootViewController.viewControllers.count == 1 {
            rootViewController.dismiss(animated: animated)
        } else {
            modalRootViewController.popViewController(animated: animated)
        }
    }

    public func clearAll(animated: Bool = false) {
        rootViewController.dismiss(animated: animated)
        rootViewController.popToRootViewController(animated: animated)
        guard let page = rootViewController.topViewController as? any Visitable else { return }
        session.visit(page, action: Library.version == .main ? .replace : .restore)
    }

    private func go(to screen: UIViewController, _ proposal: VisitProposal) {
        switch proposal.presentation {
        case .default, .replace: proposal.context == .modal ? goModally(to: screen, proposal) : goInTab(to: screen, proposal)
        case .clearAll: clearAll(animated: proposal.animated)
        case .pop: pop(animated: proposal.animated)
        }
    }

    private func goInTab(to screen: UIViewController, _ proposal: VisitProposal) {
        if let page = screen as? any Visitable { session.visit(page, options: proposal.options) }
        let wasModal = isInModalContext
        rootViewController.dismiss(animated: proposal.animated)
        if proposal.presentation == .replace {
            replaceLast(of: rootViewController, with: screen)
        } else {
            pushOrReplace(on: rootViewController, screen, proposal, wasModal: wasModal)
        }
    }

    private func goModally(to screen: UIViewController, _ proposal: VisitProposal) {
        if let page = screen as? any Visitable { modalSession.visit(page, options: proposal.options) }
        // Navigator/Extensions/UIViewController+ModalBehaviour.swift
        screen.isModalInPresentation = !(proposal.properties["modal_dismiss_gesture_enabled"] as? Bool ?? true)
        if isInModalContext {
            pushOrReplace(on: modalRootViewController, screen, proposal)
        } else {
            modalRootViewController.setViewControllers([screen], animated: proposal.animated)
            rootViewController.present(modalRootViewController, animated: proposal.animated)
        }
    }

    private func pushOrReplace(
        on stack: UINavigationController, _ screen: UIViewController, _ proposal: VisitProposal, wasModal: Bool = false
    ) {
        let below = stack.viewControllers.dropLast().last as? VisitableViewController
        if (stack.topViewController as? any Visitable)?.initialVisitableURL == proposal.url {
            replaceLast(of: stack, with: screen)
        } else if below?.initialVisitableURL == proposal.url {
            stack.popViewController(animated: proposal.animated)
        } else if proposal.options.action == .advance || wasModal {
            stack.pushViewController(screen, animated: proposal.animated)
        } else {
            replaceLast(of: stack, with: screen)
        }
    }

    /// Navigator/Extensions/UINavigationControllerExtension.swift
    private func replaceLast(of stack: UINavigationController, with screen: UIViewController) {
        stack.setViewControllers(stack.viewControllers.dropLast() + [screen], animated: false)
    }
}

/// ViewControllers/HotwireNavigationController.swift: from where a page comes, and why it goes.
@MainActor open class HotwireNavigationController: UINavigationController {
    private var page: VisitableViewController? { topViewController as? VisitableViewController }

    open override func pushViewController(_ controller: UIViewController, animated: Bool) {
        (controller as? VisitableViewController)?.appearReason = .pushedOntoNavigationStack
        page?.disappearReason = .coveredByPush
        super.pushViewController(controller, animated: animated)
    }
    // UIKit calls the pages during the call, when they still have the reasons of the move before.
    open override func popViewController(animated: Bool) -> UIViewController? {
        let popped = super.popViewController(animated: animated)
        (popped as? VisitableViewController)?.disappearReason = .poppedFromNavigationStack
        page?.appearReason = .revealedByPop
        return popped
    }
    open override func dismiss(animated flag: Bool, completion: (() -> Void)? = nil) {
        page?.appearReason = .revealedByModalDismiss
        super.dismiss(animated: flag, completion: completion)
    }
    open override func present(_ controller: UIViewController, animated flag: Bool, completion: (() -> Void)? = nil) {
        page?.disappearReason = .coveredByModal
        super.present(controller, animated: flag, completion: completion)
    }
    open override func viewWillAppear(_ animated: Bool) {
        if let page, page.disappearReason == .tabDeselected { page.appearReason = .tabSelected }
        super.viewWillAppear(animated)
    }
    open override func viewWillDisappear(_ animated: Bool) {
        if tabBarController != nil { page?.disappearReason = .tabDeselected }
        super.viewWillDisappear(animated)
    }
}

public struct HotwireTab: Hashable {
    let identifier = UUID().uuidString
    public let title: String
    public let image: UIImage
    public let selectedImage: UIImage?
    public let url: URL
    public init(title: String, image: UIImage, selectedImage: UIImage? = nil, url: URL) {
        (self.title, self.image, self.selectedImage, self.url) = (title, image, selectedImage, url)
    }
}

/// ViewControllers/HotwireTabBarController.swift.
@MainActor open class HotwireTabBarController: UITabBarController, UITabBarControllerDelegate {
    // Kept, not weak: whoever has the tab bar as its own stays with it.
    private let navigatorDelegate: (any NavigatorDelegate)?
    private(set) var navigators: [Navigator] = []

    public init(navigatorDelegate: (any NavigatorDelegate)? = nil) {
        self.navigatorDelegate = navigatorDelegate
        super.init(nibName: nil, bundle: nil)
        // 1.2.2 is no delegate: nothing happens when a tab is selected.
        if Library.version != .v1_2_2 { delegate = self }
    }
    public required init?(coder: NSCoder) { nil }

    public var activeNavigator: Navigator {
        guard navigators.indices.contains(selectedIndex) else { fatalError("no tab is selected") }
        return navigators[selectedIndex]
    }

    public func load(_ tabs: [HotwireTab]) {
        navigators = tabs.map { Navigator($0.url, navigatorDelegate) }
        show(tabs)
        if Library.loadsAllTabs { for navigator in navigators { navigator.start() } } else { activeNavigator.start() }
    }

    public func tabBarController(_ tabBarController: UITabBarController, didSelect viewController: UIViewController) {
        activeNavigator.start()
    }
}

// MARK: - The error page

/// Navigator/Helpers/ErrorHandling/ErrorPresenter.swift: Retry, which is there always, calls the handler, and takes the page away.
@MainActor public final class ErrorPage: UIViewController {
    private let retry: () -> Void
    fileprivate init(_ retry: @escaping () -> Void) {
        self.retry = retry
        super.init(nibName: nil, bundle: nil)
    }
    required init?(coder: NSCoder) { nil }
    public func tapRetry() { retry() }
}

extension UIViewController {
    public func presentError(_ error: PageFailure, retryHandler: (() -> Void)?) {
        let page = ErrorPage { [weak self] in
            retryHandler?()
            self?.removeErrorViewController()
        }
        addChild(page)
        view.addSubview(page.view)
        page.didMove(toParent: self)
    }

    public func removeErrorViewController() {
        guard let page = children.first(where: { $0 is ErrorPage }) else { return }
        page.willMove(toParent: nil)
        page.view.removeFromSuperview()
        page.removeFromParent()
    }
}
