// The notification centre: what the app asks of it is kept.
public import Foundation

public struct UNAuthorizationOptions: OptionSet, Sendable {
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public let rawValue: UInt
    public static let badge = UNAuthorizationOptions(rawValue: 1)
    public static let sound = UNAuthorizationOptions(rawValue: 2)
    public static let alert = UNAuthorizationOptions(rawValue: 4)
    public static let provisional = UNAuthorizationOptions(rawValue: 64)
}

public struct UNNotificationPresentationOptions: OptionSet, Sendable {
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public let rawValue: UInt
    public static let badge = UNNotificationPresentationOptions(rawValue: 1)
    public static let sound = UNNotificationPresentationOptions(rawValue: 2)
    public static let list = UNNotificationPresentationOptions(rawValue: 8)
    public static let banner = UNNotificationPresentationOptions(rawValue: 16)
}

open class UNNotificationAttachment: NSObject {
    public let url: URL
    public init(identifier: String, url: URL, options: [AnyHashable: Any]? = nil) throws { self.url = url }
}

public enum UNNotificationInterruptionLevel: UInt, Sendable { case passive, active, timeSensitive, critical }

open class UNNotificationSound: NSObject {}

open class UNNotificationContent: NSObject {
    public let userInfo: [AnyHashable: Any]
    public var badge: NSNumber?
    public var sound: UNNotificationSound?
    public var interruptionLevel = UNNotificationInterruptionLevel.active
    public var attachments: [UNNotificationAttachment] = []
    public init(_ userInfo: [AnyHashable: Any]) { self.userInfo = userInfo }
}

open class UNMutableNotificationContent: UNNotificationContent {}

open class UNNotificationRequest: NSObject {
    public let identifier: String
    public let content: UNNotificationContent
    public init(_ content: UNNotificationContent) {
        self.content = content
        identifier = content.userInfo["id"] as? String ?? UUID().uuidString
    }
}

open class UNNotificationAction: NSObject {}

public struct UNNotificationCategoryOptions: OptionSet, Sendable {
    public init(rawValue: UInt) { self.rawValue = rawValue }
    public let rawValue: UInt
    public static let customDismissAction = UNNotificationCategoryOptions(rawValue: 1)
}

open class UNNotificationCategory: NSObject {
    public let identifier: String
    public let options: UNNotificationCategoryOptions
    public init(
        identifier: String, actions: [UNNotificationAction], intentIdentifiers: [String],
        options: UNNotificationCategoryOptions = []
    ) {
        self.identifier = identifier
        self.options = options
    }
}

open class UNNotification: NSObject {
    public let request: UNNotificationRequest
    public init(_ userInfo: [AnyHashable: Any]) { request = UNNotificationRequest(UNNotificationContent(userInfo)) }
}

public let UNNotificationDismissActionIdentifier = "com.apple.UNNotificationDismissActionIdentifier"

open class UNNotificationResponse: NSObject {
    public let notification: UNNotification
    public let actionIdentifier = "com.apple.UNNotificationDefaultActionIdentifier"
    public init(_ userInfo: [AnyHashable: Any]) { notification = UNNotification(userInfo) }
}

public protocol UNUserNotificationCenterDelegate: NSObjectProtocol {
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, willPresent notification: UNNotification,
        withCompletionHandler completionHandler: @escaping (UNNotificationPresentationOptions) -> Void)
    func userNotificationCenter(
        _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
        withCompletionHandler completionHandler: @escaping () -> Void)
}

open class UNUserNotificationCenter: NSObject {
    nonisolated(unsafe) private static let shared = UNUserNotificationCenter()
    public class func current() -> UNUserNotificationCenter { shared }
    public weak var delegate: (any UNUserNotificationCenterDelegate)?
    private let lock = NSLock()
    private var kept: (icon: Int, asked: [UNAuthorizationOptions]) = (0, [])
    public var icon: Int { lock.withLock { kept.icon } }
    /// The permissions asked for.
    public var asked: [UNAuthorizationOptions] { lock.withLock { kept.asked } }
    /// The user's answer, or the system's error.
    nonisolated(unsafe) public var answer: () throws -> Bool = { true }
    open func requestAuthorization(options: UNAuthorizationOptions = []) async throws -> Bool {
        lock.withLock { kept.asked.append(options) }
        return try answer()
    }
    open func setBadgeCount(_ newBadgeCount: Int) async throws { lock.withLock { kept.icon = newBadgeCount } }
    open func deliveredNotifications() async -> [UNNotification] { [] }
    open func setNotificationCategories(_ categories: Set<UNNotificationCategory>) {}
    open func removeAllDeliveredNotifications() {}
    open func removeDeliveredNotifications(withIdentifiers identifiers: [String]) {}
}
