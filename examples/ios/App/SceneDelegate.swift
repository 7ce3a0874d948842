import UIKit

final class SceneDelegate: UIResponder {
    var window: UIWindow?
    private var shell: Shell?
}

extension SceneDelegate: UIWindowSceneDelegate {
    func scene(
        _ scene: UIScene, willConnectTo session: UISceneSession, options connectionOptions: UIScene.ConnectionOptions
    ) {
        guard let scene = scene as? UIWindowScene else { return }
        let window = UIWindow(windowScene: scene)
        let shell = Shell()
        window.rootViewController = shell.tabBar
        window.makeKeyAndVisible()
        (self.window, self.shell) = (window, shell)
        shell.start()
        // A tap on a push isn't taken from the options: AppDelegate is told of it, at a cold start too.
        for context in connectionOptions.urlContexts { shell.open(context.url) }
        for activity in connectionOptions.userActivities { open(activity) }
    }

    /// iOS has taken the window, and may give the app another one.
    func sceneDidDisconnect(_ scene: UIScene) {
        shell?.end()
        (window, shell) = (nil, nil)
    }

    func sceneWillEnterForeground(_ scene: UIScene) {
        Services.shared.cameToForeground()
    }

    func scene(_ scene: UIScene, openURLContexts URLContexts: Set<UIOpenURLContext>) {
        for context in URLContexts { shell?.open(context.url) }
    }

    func scene(_ scene: UIScene, continue userActivity: NSUserActivity) { open(userActivity) }

    private func open(_ activity: NSUserActivity) {
        guard activity.activityType == NSUserActivityTypeBrowsingWeb, let url = activity.webpageURL else { return }
        shell?.open(url)
    }
}
