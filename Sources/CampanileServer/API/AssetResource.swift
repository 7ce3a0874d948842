import CEmbedded
import CampanileCore
import Crypto
import HTTPEngine

private let contentHashDigits = 12

/// An entity tag: tells one version of a document from another (RFC 9110 section 8.8.3).
func contentHash(_ content: UnsafeRawBufferPointer) -> String {
    var hash = SHA256()
    hash.update(bufferPointer: content)
    return String(Hex.encode(hash.finalize()).prefix(contentHashDigits))
}

extension ProgramBytes {
    /// An embedded file, where it stands.
    init(file name: String) {
        let file = embedded(name)
        self.init(UnsafeRawBufferPointer(start: file.text, count: file.count))
    }
}

/// An embedded file that pages load. Its name holds the hash of its content, so that a cache may keep it for good.
struct Asset: Sendable {
    /// As the sources call it: `campanile-badge.js`.
    let plainName: String
    /// `campanile-badge-0123456789ab.js`.
    let name: String
    let contentType: StaticString
    let content: ProgramBytes

    init(_ plainName: String) {
        self.plainName = plainName
        content = ProgramBytes(file: plainName)
        let parts = plainName.split(separator: ".")
        name = "\(parts.dropLast().joined(separator: "."))-\(contentHash(content.bytes)).\(parts.last ?? "")"
        switch parts.last {
        case "js": contentType = "text/javascript; charset=utf-8"
        case "css": contentType = "text/css; charset=utf-8"
        case "svg": contentType = "image/svg+xml"
        default: contentType = "application/octet-stream"
        }
    }

    /// The name without the hash of any version.
    static func plainName(of name: String) -> String {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let dash = parts[0].lastIndex(of: "-") else { return name }
        let hash = parts[0][dash...].dropFirst()
        guard hash.utf8.count == contentHashDigits, hash.allSatisfy(\.isHexDigit) else { return name }
        return "\(parts[0][..<dash]).\(parts[1])"
    }
}

/// The files below `/assets/`: the pieces for pages, always, and the console's own files if it is on.
struct Assets: Sendable {
    private let byName: [String: Asset]
    private let byPlainName: [String: Asset]

    init(console: Bool) {
        let assets = Assets.pieces + (console ? Assets.consoleFiles : [])
        byName = Dictionary(uniqueKeysWithValues: assets.map { ($0.name, $0) })
        byPlainName = Dictionary(uniqueKeysWithValues: assets.map { ($0.plainName, $0) })
    }

    /// The pieces for pages: every application may load them.
    private static let pieces = [
        Asset("campanile-badge.js"),
        Asset("campanile-cable.js"),
        Asset("campanile-inbox.js"),
        Asset("campanile-links.js"),
        Asset("badge_controller.js"),
        Asset("native.css"),
        // What /docs loads.
        Asset("reference.css"),
        Asset("campanile.svg"),
    ]

    private static let consoleFiles = [
        Asset("console.css"),
        Asset("console.js"),
        Asset("console-devices.js"),
        Asset("console-inbox.js"),
        Asset("console-kit.js"),
        Asset("console-operate.js"),
        Asset("console-pictures.js"),
        Asset("console-preview.js"),
        Asset("console-sending.js"),
        Asset("phones.css"),
        Asset("phones.js"),
    ]

    func asset(named name: String) -> Asset? { byName[name] }

    /// The present version of a file, asked for by its plain name or by a version that is gone.
    func present(_ name: String) -> Asset? { byPlainName[Asset.plainName(of: name)] }

    /// A page whose addresses of assets are those of the present versions.
    func page(_ html: String) -> String {
        var page = html
        for asset in byName.values {
            page = page.replacing("\"/assets/\(asset.plainName)\"", with: "\"/assets/\(asset.name)\"")
        }
        return page
    }
}

/// `/assets/{name}`, `/docs`, `/console` and the way there from `/`.
struct AssetResource: Sendable {
    private let assets: Assets
    private let nativeRequests: NativeRequests
    /// The page for browsers, and the one for native apps, with the class that `native.css` uses. Nil if the console is
    /// off.
    private let console: (plain: String, native: String)?
    /// Made of openapi.yaml by e2e/contract/reference_page.py.
    private let reference = PublicDocument(page: "reference.html")

    init(console: Bool, nativeRequests: NativeRequests) {
        assets = Assets(console: console)
        self.nativeRequests = nativeRequests
        let page = assets.page(String(cString: embedded("console.html").text))
        let native = page.replacing("<html lang=\"en\">", with: "<html lang=\"en\" class=\"native-app\">", maxReplacements: 1)
        self.console = console ? (page, native) : nil
    }

    func get(_ request: Request) throws -> Answer {
        guard let name = request.parameter(0) else { throw ClientError.notFound }
        if let asset = assets.asset(named: name) {
            var response = Response(status: 200, contentType: asset.contentType, body: .program(asset.content))
            response.add("Cache-Control", "public, max-age=31536000, immutable")
            response.add("X-Content-Type-Options", "nosniff")
            AssetResource.openToPages(&response)
            return .now(response)
        }
        guard let asset = assets.present(name) else { throw ClientError.notFound }
        var response = Response(status: 302, headers: [.init("Location", .text("/assets/\(asset.name)"))])
        response.add("Cache-Control", "no-cache")
        AssetResource.openToPages(&response)
        return .now(response)
    }

    /// A module is loaded from another origin only with its consent; there is nothing secret in it.
    private static func openToPages(_ response: inout Response) {
        response.add("Access-Control-Allow-Origin", "*")
    }

    /// Sends a browser that opens the server's own address to the console.
    func root(_ request: Request) throws -> Answer {
        guard console != nil else { throw ClientError.notFound }
        return .now(Response(status: 302, headers: [.init("Location", "/console"), .init("Cache-Control", "no-cache")]))
    }

    /// One page. It loads nothing from elsewhere and allows no frame around it; it may call a simulator's page.
    func console(_ request: Request) throws -> Answer {
        guard let console else { throw ClientError.notFound }
        var response = Response(
            status: 200, contentType: "text/html; charset=utf-8",
            body: .text(nativeRequests.isNative(request) ? console.native : console.plain))
        response.add("Cache-Control", "no-store")
        AssetResource.restrict(
            &response,
            to: """
                default-src 'self'; connect-src 'self' http: https:; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                form-action 'none'; frame-ancestors 'none'
                """)
        return .now(response)
    }

    /// The reference of the API.
    func reference(_ request: Request) throws -> Answer {
        var response = reference.response(to: request)
        AssetResource.restrict(
            &response,
            to: """
                default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
                frame-ancestors 'none'
                """)
        return .now(response)
    }

    private static func restrict(_ page: inout Response, to policy: StaticString) {
        page.add("X-Content-Type-Options", "nosniff")
        page.add("Referrer-Policy", "no-referrer")
        page.add("Content-Security-Policy", .constant(policy))
    }
}
