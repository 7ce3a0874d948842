import Foundation
import Testing

@testable import Push

/// The tables of docs/payload.md are those of the code.
@Suite("docs/payload.md") struct PayloadTableTests {
    private static let document = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "docs/payload.md")

    @Test("the table has a row for each field, as the code has it")
    func table() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        let parts = text.components(separatedBy: "<!-- payload table -->\n")
        let table = try #require(parts.last?.components(separatedBy: "<!-- end of the payload table -->").first)
        let rows = PayloadField.all.map { field in
            "| `\(field.name)` | \(field.value) | "
                + [field.ios, field.android, field.app].map { $0 ?? "–" }.joined(separator: " | ") + " | \(field.shownBy) |"
        }
        let expected = ["| field | value | iOS | Android | data.alert | who shows it |", "|---|---|---|---|---|---|"] + rows
        #expect(table.split(separator: "\n").map(String.init) == expected)
    }

    @Test("every key of an overlay is named, and every field of the code's forms stands in the table")
    func keys() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        // A key stands alone, or behind its object's: `fcm_options.analytics_label`.
        let named = Set(text.matches(of: /[A-Za-z_-]+(?=`)/).map { String($0.output) })
        let parents = Set(text.matches(of: /`([A-Za-z_-]+)[.`]/).map { String($0.output.1) })
        for key in Self.keys(PayloadOverlay.apns) + Self.keys(PayloadOverlay.fcm) {
            #expect(named.contains(key) || parents.contains(key), "\(key)")
        }
        let names = Set(PayloadField.all.map(\.name))
        for (field, shape) in PayloadField.shapes where !["apns", "fcm"].contains(field) {
            let below = Self.keys(shape).map { "\(field).\($0)" }
            for name in below.isEmpty ? [field] : below { #expect(names.contains(name), "\(name)") }
        }
    }

    /// The keys of a form, and of those in it.
    private static func keys(_ shape: PayloadShape) -> [String] {
        switch shape {
        case .object(let fields, _), .open(let fields), .textOrObject(_, let fields, _):
            fields.keys.sorted() + fields.keys.sorted().flatMap { keys(fields[$0] ?? .bool) }
        case .list(let inner, _): keys(inner)
        default: []
        }
    }
}
