// swift-tools-version: 6.1
import PackageDescription

/// Every Swift target obeys the same strict rules: an import is private to the file that writes it, a member is
/// visible only where its module is imported, and an existential says `any`.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
]

let package = Package(
    name: "campanile",
    products: [
        .executable(name: "campanile", targets: ["campanile"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: [
        .systemLibrary(name: "CMicroHTTPD", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // Not imported by anyone: linked into every program that holds the engine, it takes the place of a function of the C library.
        .target(name: "CEpoll"),
        .target(name: "HTTPEngine", dependencies: ["CMicroHTTPD", "CEpoll"], swiftSettings: strict),
        .target(name: "SQLEngine", dependencies: ["CSQLite"], swiftSettings: strict),
        .target(name: "CampanileCore", swiftSettings: strict),
        .target(
            name: "Push",
            dependencies: [
                "CampanileCore",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict),
        .target(
            name: "PushSimulator",
            dependencies: [
                "CampanileCore",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            resources: [
                .embedInCode("page.html"), .embedInCode("page.css"), .embedInCode("page.js"), .embedInCode("phones.js"),
                .embedInCode("phones.css"),
            ],
            swiftSettings: strict),
        .target(
            name: "CampanileServer",
            dependencies: [
                "HTTPEngine", "SQLEngine", "CampanileCore", "Push", "Yams",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ],
            resources: [.embedInCode("migrations"), .embedInCode("openapi.yaml"), .embedInCode("web")],
            swiftSettings: strict),
        .executableTarget(
            name: "campanile",
            dependencies: [
                "CampanileServer", "PushSimulator",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict),
        .target(name: "TestPrograms", path: "Tests/TestPrograms", swiftSettings: strict),
        .testTarget(name: "HTTPEngineTests", dependencies: ["HTTPEngine"], swiftSettings: strict),
        .testTarget(name: "SQLEngineTests", dependencies: ["SQLEngine", "CSQLite"], swiftSettings: strict),
        .testTarget(
            name: "PushTests",
            dependencies: [
                "Push", "CampanileCore", "TestPrograms",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "PushSimulatorTests",
            dependencies: [
                "PushSimulator", "CampanileCore", "TestPrograms",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: strict),
        .testTarget(name: "CampanileServerTests", dependencies: [
                "CampanileServer", "CSQLite", "Push", "PushSimulator", "TestPrograms", "Yams",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6]
)
