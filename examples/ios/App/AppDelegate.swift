import CampanileClient
import HotwireNative
import UIKit
import UserNotifications
import WebKit

@main
final class AppDelegate: UIResponder {
    private func configureHotwire() {
        Hotwire.loadPathConfiguration(from: Addresses.pathConfiguration)
        Hotwire.registerBridgeComponents([BadgeComponent.self, NotificationTokenComponent.self])
        // Campanile knows the app by what the library adds to it: `Hotwire Native iOS`.
        Hotwire.config.applicationUserAgentPrefix = "Example/\(DeviceRegistration.bundleVersion ?? "0");"
        Hotwire.config.backButtonDisplayMode = .minimal
        // At the right stands the bell; `Shell` puts a close button at the left.
        Hotwire.config.showDoneButtonOnModals = false
        Hotwire.config.defaultViewController = { PageViewController(url: $0) }
        Hotwire.config.makeCustomWebView = { configuration in
            configuration.userContentController.add(BadgeMessages(), name: BadgeMessages.name)
            let view = WKWebView(frame: .zero, configuration: configuration)
            #if DEBUG
            if #available(iOS 16.4, *) { view.isInspectable = true }  // by Safari on a Mac
            #endif
            return view
        }
        #if DEBUG
        Hotwire.config.debugLoggingEnabled = true
        #endif
    }
}

extension AppDelegate: UIApplicationDelegate {
    // Before the first web view is made, and before a tap at a cold start is delivered.
    func application(
        _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
        configureHotwire()
        UNUserNotificationCenter.current().delegate = Services.shared.pushDelegate
        registerCategories()
        Services.shared.registerForPushes()
        return true
    }

    /// The categories of the server's whose alerts tell the app of a swipe: with `dismiss: read` it reads the notification, with
    /// any other it does nothing. Without `customDismissAction` iOS tells the app of none. An app with buttons gives their
    /// category its actions here.
    private func registerCategories() {
        let categories = ["NOTICE"].map {
            UNNotificationCategory(identifier: $0, actions: [], intentIdentifiers: [], options: .customDismissAction)
        }
        UNUserNotificationCenter.current().setNotificationCategories(Set(categories))
    }

    func application(_ application: UIApplication, didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data) {
        Services.shared.attempt { try await $0.registration.register(deviceToken) }
    }

    func application(_ application: UIApplication, didFailToRegisterForRemoteNotificationsWithError error: any Error) {
        Services.shared.log("No device token: \(error.localizedDescription)")
    }

    func application(
        _ application: UIApplication, didReceiveRemoteNotification userInfo: [AnyHashable: Any],
        fetchCompletionHandler completionHandler: @escaping (UIBackgroundFetchResult) -> Void
    ) {
        Services.shared.push.received(userInfo, completion: completionHandler)
    }
}
