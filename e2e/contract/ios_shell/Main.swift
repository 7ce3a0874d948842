// What Hotwire Native's main declares otherwise than 1.3.0-beta, made again from its sources; each rule names the file that it is
// from, under Source/Turbo. The other is in Released.swift.
public import Foundation
import UIKit

/// Errors/HotwireNativeError.swift.
public enum HotwireNativeError: Error, Equatable {
    case http(HTTPError)
    case web(WebError)
    case load(LoadError)

    public var statusCode: Int? {
        if case .http(let error) = self { error.statusCode } else { nil }
    }
    public var urlError: URLError? {
        if case .web(let error) = self { error.urlError } else { nil }
    }
}

/// Errors/HTTPError.swift: 400 to 599. The library has a case for each status.
public struct HTTPError: Error, Equatable {
    public let statusCode: Int
}

/// Errors/WebError.swift: an error of the system's, or a status of Turbo's, which no URLError stands for.
public struct WebError: Error, Equatable {
    public let urlError: URLError?
    public let errorCode: Int
}

/// Errors/LoadError.swift.
public enum LoadError: Error, Equatable { case notPresent, notReady, contentTypeMismatch, invalidResponse }

/// The error that a delegate is told of for a page that failed.
public typealias PageFailure = HotwireNativeError

/// Errors/HotwireNativeError.swift, `init(turboJSStatusCode:)`.
func pageError(status: Int) -> PageFailure {
    switch status {
    case -2: .load(.contentTypeMismatch)
    case 400...599: .http(HTTPError(statusCode: status))
    default: .web(WebError(urlError: nil, errorCode: status))
    }
}

func pageError(code: Int) -> PageFailure {
    .web(WebError(urlError: URLError(URLError.Code(rawValue: code)!), errorCode: code))
}

/// ViewControllers/HotwireTab.swift.
extension HotwireTab {
    public var id: String { identifier }
}

extension HotwireTabBarController {
    public func navigator(for tab: HotwireTab) -> Navigator? {
        tabs.firstIndex { $0.identifier == tab.id }.map { navigators[$0] }
    }

    /// ViewControllers/HotwireTabBarController.swift: from iOS 18 on the bar has tabs, and no items are made.
    func show(_ tabs: [HotwireTab]) {
        self.tabs = zip(tabs, navigators).map { tab, navigator in
            UITab(title: tab.title, image: tab.image, identifier: tab.id, viewController: navigator.rootViewController)
        }
    }
}
