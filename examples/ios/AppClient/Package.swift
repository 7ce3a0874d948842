// swift-tools-version: 6.1
import PackageDescription

// Between the app and Campanile's package because a project of Xcode can't switch the trait off with which the server's own
// dependencies come. An app in a package of its own depends on Campanile directly, as this does.
let package = Package(
    name: "AppClient",
    platforms: [.iOS(.v16)],
    products: [.library(name: "AppClient", targets: ["AppClient"])],
    dependencies: [.package(name: "campanile", path: "../../..", traits: [])],
    targets: [
        .target(name: "AppClient", dependencies: [.product(name: "CampanileClient", package: "campanile")])
    ]
)
