public import CampanileCore
public import Foundation

extension DeviceEnvironment {
    /// The one of Apple's two services that knows this build's device token. The build's signature decides it;
    /// conditions such as `#if DEBUG` don't tell. TestFlight and the App Store strip the profile: they are production.
    public static var ofThisBuild: DeviceEnvironment {
        #if targetEnvironment(simulator)
        return .sandbox
        #else
        let profile = Bundle.main.url(forResource: "embedded", withExtension: "mobileprovision")
        return DeviceEnvironment(provisioningProfile: profile.flatMap { try? Data(contentsOf: $0) })
        #endif
    }

    /// - Parameter profile: the content of `embedded.mobileprovision`, a signed envelope around a property list; nil if
    ///   the bundle has none. Only an explicit `development` makes it the sandbox.
    public init(provisioningProfile profile: Data?) {
        self = DeviceEnvironment.entitlement(profile) == "development" ? .sandbox : .production
    }

    private static func entitlement(_ profile: Data?) -> String? {
        guard let profile, let start = profile.range(of: Data("<plist".utf8)),
            let end = profile.range(of: Data("</plist>".utf8), in: start.upperBound..<profile.endIndex),
            let list = try? PropertyListSerialization.propertyList(
                from: profile[start.lowerBound..<end.upperBound], format: nil) as? [String: Any],
            let entitlements = list["Entitlements"] as? [String: Any]
        else { return nil }
        return entitlements["aps-environment"] as? String
            ?? entitlements["com.apple.developer.aps-environment"] as? String
    }
}
