import CampanileClient
import HotwireNative
import UIKit

/// Pages that aren't left backwards: behind the thanks is a form that is done.
private let backButtons = BackButtonPolicy(final: ["/orders/:id/thanks"])

extension Shell: UINavigationControllerDelegate {
    /// Before every push, pop and change of a stack's root, so that the bar comes with its items.
    func navigationController(
        _ navigationController: UINavigationController, willShow viewController: UIViewController, animated: Bool
    ) {
        putBars(on: viewController, of: navigationController)
    }

    /// After it: a page that was visited meanwhile has another address.
    func navigationController(
        _ navigationController: UINavigationController, didShow viewController: UIViewController, animated: Bool
    ) {
        putBars(on: viewController, of: navigationController)
    }

    private func putBars(on viewController: UIViewController, of navigationController: UINavigationController) {
        let isModal = navigators.values.contains { $0.modalRootViewController === navigationController }
        if isModal { navigationController.presentationController?.delegate = self }
        let depth = navigationController.viewControllers.count - 1
        let button = backButtons.button(
            for: (viewController as? any Visitable)?.currentVisitableURL, depth: depth, isModal: isModal)
        let item = viewController.navigationItem
        item.backButtonDisplayMode = .minimal
        item.hidesBackButton = button == .none
        item.leftItemsSupplementBackButton = true
        if isModal {
            item.leftBarButtonItems = button == .close ? [closeButton(navigationController)] : []
        } else {
            item.leftBarButtonItems = [menuButton]
        }
        putBell(on: viewController)
    }

    private func closeButton(_ modal: UINavigationController) -> UIBarButtonItem {
        let close = UIAction { [weak self, weak modal] _ in
            guard let modal else { return }
            modal.dismiss(animated: true)
            self?.wasPutAway(modal)
        }
        return UIBarButtonItem(systemItem: .close, primaryAction: close)
    }

    private var menuButton: UIBarButtonItem {
        let item = UIBarButtonItem(
            title: "Menu", image: UIImage(systemName: "line.3.horizontal"),
            primaryAction: UIAction { [weak self] _ in self?.showMenu() })
        item.accessibilityLabel = "Menu"
        return item
    }

    private func showMenu() {
        let menu = SideMenu(on: currentPage?.currentVisitableURL) { [weak self] path in
            guard let url = Addresses.web.page(path) else { return }
            self?.visit(url)
        }
        tabBar.present(menu, animated: true)
    }
}

extension Shell: UIAdaptivePresentationControllerDelegate {
    /// Pulled down by the user.
    func presentationControllerDidDismiss(_ presentationController: UIPresentationController) {
        guard let modal = presentationController.presentedViewController as? UINavigationController else { return }
        wasPutAway(modal)
    }
}
