import CampanileClient
import HotwireNative
import UIKit

/// Pages that aren't left backwards: behind the thanks is a form that is done.
private let backButtons = BackButtonPolicy(final: ["/orders/:id/thanks"])

extension Shell: UINavigationControllerDelegate {
    /// After every push, pop and change of a stack's root.
    func navigationController(
        _ navigationController: UINavigationController, didShow viewController: UIViewController, animated: Bool
    ) {
        let isModal = navigators.contains { $0.modalRootViewController === navigationController }
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
        UIBarButtonItem(systemItem: .close, primaryAction: UIAction { [weak modal] _ in modal?.dismiss(animated: true) })
    }

    private var menuButton: UIBarButtonItem {
        UIBarButtonItem(
            title: "Menu", image: UIImage(systemName: "line.3.horizontal"),
            primaryAction: UIAction { [weak self] _ in self?.showMenu() })
    }

    private func showMenu() {
        let menu = SideMenu(on: currentPage) { [weak self] path in
            guard let url = Addresses.web.page(path) else { return }
            self?.visit(url)
        }
        tabBar.present(menu, animated: true)
    }
}
