/// The page: one text, composed of its parts in Resources, that loads no other file.
enum PageResources {
    /// Loads nothing from elsewhere, and calls only the simulator.
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
