/// The page: one text without any other request, made of its parts in Resources.
enum PageResources {
    /// Nothing is loaded from anywhere; only the simulator itself is asked.
    static let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:;"
        + " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    static let page: [UInt8] = {
        text(PackageResources.page_html)
            .replacing("/* phones.css */", with: text(PackageResources.phones_css))
            .replacing("/* page.css */", with: text(PackageResources.page_css))
            .replacing("/* phones.js */", with: text(PackageResources.phones_js))
            .replacing("/* page.js */", with: text(PackageResources.page_js))
    }().utf8.map { $0 }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
