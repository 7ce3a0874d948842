// swift-tools-version: 6.1
import PackageDescription

// For Xcode 16.3 and its like, whose Swift is older than 6.3: CampanileClient alone. A newer Swift reads Package.swift, which has
// the server too, and says the same of CampanileClient (e2e/contract/consumer.py).
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
]

let package = Package(
    name: "campanile",
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [.library(name: "CampanileClient", targets: ["CampanileClient"])],
    // An app's `traits: []` names a package that has traits.
    traits: [
        .trait(name: "Server", description: "The program campanile, with the packages that it needs."),
        .default(enabledTraits: ["Server"]),
    ],
    targets: [
        .target(name: "CampanileCore", swiftSettings: strict),
        .target(
            name: "CampanileClient", dependencies: ["CampanileCore"], resources: [.copy("PrivacyInfo.xcprivacy")],
            swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
