import CampanileCore
import Foundation

/// The app's tabs, from the server's path configuration.
public struct TabConfiguration: Hashable, Sendable {
    public struct Tab: Hashable, Sendable, Identifiable {
        /// nil if the tab shows only its icon.
        public let title: String?
        /// The name of an image, such as an SF Symbol's; nil if the tab shows only its title.
        public let icon: String?
        /// The image while the tab is selected; nil for the same. A `UITab` has none: where Hotwire Native makes those,
        /// from iOS 18 on in the versions after 1.3.0-beta, it is ignored.
        public let selectedIcon: String?
        public let path: String
        /// True if this is the notifications tab, which carries the badge.
        public let isNotifications: Bool

        public var id: String { path }

        /// The words for VoiceOver: the title; else, of a tab with an icon alone, the end of its path, `My account` for
        /// `/users/my_account`. English like the path: for other languages give the tab a title.
        public var accessibilityLabel: String {
            if let title, !title.isEmpty { return title }
            let end = path.prefix { $0 != "?" && $0 != "#" }.split(separator: "/").last.map(String.init) ?? "home"
            let words = end.map { $0 == "_" || $0 == "-" ? " " : String($0) }.joined()
            return words.prefix(1).uppercased() + words.dropFirst()
        }

        public init(
            title: String? = nil, icon: String? = nil, selectedIcon: String? = nil, path: String,
            isNotifications: Bool = false
        ) {
            self.title = title
            self.icon = icon
            self.selectedIcon = selectedIcon
            self.path = path
            self.isNotifications = isNotifications
        }
    }

    public let tabs: [Tab]

    public init(_ tabs: [Tab]) { self.tabs = tabs }

    /// From Hotwire Native: `Hotwire.config.pathConfiguration.settings`.
    /// - Returns: nil when the settings have no tabs, or an unreadable one.
    public init?(settings: [String: AnyHashable]) {
        guard let values = settings["tabs"]?.base as? [Any] else { return nil }
        self.init(
            values.map { value in
                guard let member = value as? [String: Any] else { return nil }
                func text(_ key: String) -> String? { member[key] as? String }
                return Tab(
                    title: text("title"), icon: text("icon"), selectedIcon: text("selected_icon"), path: text("path"),
                    isNotifications: member["notifications"] as? Bool)
            })
    }

    /// From the settings of the server's answer.
    init?(settings: JSONValue) {
        guard case .array(let values)? = settings["tabs"] else { return nil }
        self.init(
            values.map { value in
                Tab(
                    title: value["title"]?.string, icon: value["icon"]?.string, selectedIcon: value["selected_icon"]?.string,
                    path: value["path"]?.string, isNotifications: value["notifications"].map { $0 == .bool(true) })
            })
    }

    private init?(_ tabs: [Tab?]) {
        guard !tabs.isEmpty, !tabs.contains(nil) else { return nil }
        self.tabs = tabs.compactMap(\.self)
    }

    /// The index of the notifications tab; nil for none.
    public var notificationsIndex: Int? { tabs.firstIndex(where: \.isNotifications) }
}

extension TabConfiguration.Tab {
    fileprivate init?(title: String?, icon: String?, selectedIcon: String?, path: String?, isNotifications: Bool?) {
        guard let path, title != nil || icon != nil else { return nil }
        self.init(
            title: title, icon: icon, selectedIcon: selectedIcon, path: path, isNotifications: isNotifications ?? false)
    }
}
