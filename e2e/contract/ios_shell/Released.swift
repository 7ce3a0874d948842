// What Hotwire Native declares otherwise up to 1.3.0-beta, made again from its sources: the other is in Main.swift.
import Foundation
import UIKit

/// Turbo/Errors/TurboError.swift.
public enum TurboError: Error, Equatable {
    case networkFailure, timeoutFailure, contentTypeMismatch, pageLoadFailure
    case http(statusCode: Int)
}

/// The error that a delegate is told of for a page that failed.
public typealias PageFailure = any Error

func pageError(status: Int) -> PageFailure { TurboError.http(statusCode: status) }
func pageError(code: Int) -> PageFailure { NSError(domain: NSURLErrorDomain, code: code) }

extension HotwireTabBarController {
    /// Turbo/ViewControllers/HotwireTabBarController.swift.
    func show(_ tabs: [HotwireTab]) {
        for (tab, navigator) in zip(tabs, navigators) {
            navigator.rootViewController.tabBarItem = UITabBarItem(
                title: tab.title, image: tab.image, selectedImage: tab.selectedImage)
        }
        viewControllers = navigators.map(\.rootViewController)
    }
}
