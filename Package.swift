// swift-tools-version: 6.3
import PackageDescription

/// Every Swift target obeys the same strict rules: an import is private to the file that writes it, a member is
/// visible only where its module is imported, and an existential says `any`.
var strict: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("ExistentialAny"),
]

// Where there are none today: a later compiler and Apple's SDK may warn of something new, and nobody's build is to fail for that.
#if os(Linux) && compiler(<6.4)
strict.append(.treatAllWarnings(as: .error))
#endif

/// How the program is linked. The loader reads all of its relocations and exported symbols at each start: the packed form of the ones and
/// leaving out the others take 5 MiB off the memory of a server at rest. Needs glibc 2.36, which Debian 12 has.
let packed: [LinkerSetting] = [
    .unsafeFlags(
        ["-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs", "-Xlinker", "--no-export-dynamic"],
        .when(platforms: [.linux]))
]

/// A product that only the server needs: an app that uses CampanileClient switches the trait off, and none of these packages is
/// fetched.
func server(_ name: String, _ package: String) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: ["Server"]))
}

let package = Package(
    name: "campanile",
    // The client's. The server is for Linux.
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [
        .executable(name: "campanile", targets: ["campanile"]),
        .library(name: "CampanileClient", targets: ["CampanileClient"]),
    ],
    traits: [
        .trait(name: "Server", description: "The program campanile, with the packages that it needs."),
        .default(enabledTraits: ["Server"]),
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
        // Not a system library: SwiftPM compiles no C in one, and epoll.c belongs beside what it is for.
        .target(name: "CMicroHTTPD", linkerSettings: [.linkedLibrary("microhttpd")]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        // Nothing links libpq: it is opened when a PostgreSQL database is asked for. Its header is libpq-dev's.
        .target(name: "CPostgres"),
        // The files that stand in the program: migrations, openapi.yaml, pages and their parts. Its #embed wants C23.
        .target(name: "CEmbedded"),
        .target(name: "SystemSupport", swiftSettings: strict),
        .target(name: "HTTPEngine", dependencies: ["CMicroHTTPD", "SystemSupport"], swiftSettings: strict),
        .target(name: "SQLEngine", dependencies: ["CSQLite", "CPostgres", "SystemSupport"], swiftSettings: strict),
        .target(name: "CampanileCore", swiftSettings: strict),
        .target(
            name: "CampanileClient", dependencies: ["CampanileCore"], resources: [.copy("PrivacyInfo.xcprivacy")],
            swiftSettings: strict),
        .target(
            name: "Push",
            dependencies: [
                "CampanileCore",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOHPACK", "swift-nio-http2"),
                server("NIOSSL", "swift-nio-ssl"),
            ],
            swiftSettings: strict),
        .target(
            name: "PushSimulator",
            dependencies: [
                "CampanileCore", "CEmbedded",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOTLS", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOHPACK", "swift-nio-http2"),
                server("NIOSSL", "swift-nio-ssl"),
                server("SwiftASN1", "swift-asn1"),
                server("X509", "swift-certificates"),
            ],
            exclude: ["page.html", "page.css", "page.js", "phones.js", "phones.css"],
            swiftSettings: strict),
        .target(
            name: "CampanileServer",
            dependencies: [
                "HTTPEngine", "SQLEngine", "SystemSupport", "CampanileCore", "Push", "CEmbedded", "CYAML",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("JWTKit", "jwt-kit"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOWebSocket", "swift-nio"),
            ],
            exclude: ["web"],
            swiftSettings: strict),
        // A server, the simulator and its phones on one clock, moved by a script's steps.
        .target(
            name: "PhoneScript",
            dependencies: [
                "CampanileServer", "PushSimulator", "CampanileCore", "SystemSupport", server("Logging", "swift-log"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "campanile",
            dependencies: [
                "CampanileServer", "PushSimulator", "PhoneScript", "CampanileCore",
                server("ArgumentParser", "swift-argument-parser"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: strict, linkerSettings: packed),
        .target(name: "TestSupport", dependencies: ["CampanileCore"], path: "Tests/TestSupport", swiftSettings: strict),
        .testTarget(name: "SystemSupportTests", dependencies: ["SystemSupport", "TestSupport"], swiftSettings: strict),
        .testTarget(name: "HTTPEngineTests", dependencies: ["HTTPEngine", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "SQLEngineTests", dependencies: ["SQLEngine", "CSQLite", "SystemSupport", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "PushTests",
            dependencies: [
                "Push", "CampanileCore", "TestSupport",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOHPACK", "swift-nio-http2"),
                server("NIOSSL", "swift-nio-ssl"),
                server("SwiftASN1", "swift-asn1"),
                server("X509", "swift-certificates"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "PushSimulatorTests",
            dependencies: [
                "PushSimulator", "CampanileCore", "TestSupport",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOHPACK", "swift-nio-http2"),
                server("NIOSSL", "swift-nio-ssl"),
            ],
            swiftSettings: strict),
        .testTarget(name: "CampanileCoreTests", dependencies: ["CampanileCore", "TestSupport"], swiftSettings: strict),
        .testTarget(
            name: "CampanileClientTests", dependencies: ["CampanileClient", "CampanileCore", "TestSupport"], swiftSettings: strict
        ),
        .testTarget(
            name: "CampanileServerTests",
            dependencies: [
                "CampanileServer", "CampanileClient", "CSQLite", "SystemSupport", "Push", "PushSimulator", "TestSupport",
                server("Yams", "Yams"),
                server("Crypto", "swift-crypto"),
                server("JWTKit", "jwt-kit"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOWebSocket", "swift-nio"),
            ], swiftSettings: strict),
        .testTarget(
            name: "PhoneScriptTests", dependencies: ["PhoneScript", "PushSimulator", "CampanileCore"], swiftSettings: strict),
    ],
    swiftLanguageModes: [.v6],
    cLanguageStandard: .gnu2x
)
