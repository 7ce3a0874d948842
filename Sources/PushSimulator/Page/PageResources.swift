import CEmbedded

/// The page: one text, composed of embedded files, that loads no other file.
enum PageResources {
    /// Loads nothing from elsewhere, and calls only the simulator.
    static let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:;"
        + " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    static let page: [UInt8] = {
        text("page.html")
            .replacing("/* phones.css */", with: text("phones.css"))
            .replacing("/* page.css */", with: text("page.css"))
            .replacing("/* phones.js */", with: text("phones.js"))
            .replacing("/* page.js */", with: text("page.js"))
    }().utf8.map { $0 }

    private static func text(_ name: String) -> String { String(cString: embedded(name).text) }
}
