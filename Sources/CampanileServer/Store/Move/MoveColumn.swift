import CampanileCore
import SQLEngine

/// A column of a table that is moved: its name in PostgreSQL, and what it holds.
struct MoveColumn: Sendable {
    enum Kind: Sendable {
        case int, bool, text
        /// An id.
        case uuid
        case bytes
        /// That of a device, by its app and its token: SQLite has none.
        case shard
    }

    let name: String
    let kind: Kind

    /// - Parameter type: as `format_type` names it.
    init(name: String, type: String) {
        self.name = name
        kind =
            switch type {
            case "boolean": .bool
            case "text": .text
            case "uuid": .uuid
            case "bytea": .bytes
            default: name == "shard" ? .shard : .int
            }
    }
}

/// Rows as a JSON array of objects, for `json_populate_recordset`, which gives every value its column's type.
/// Source: https://www.postgresql.org/docs/15/functions-json.html
struct MovedRows {
    private var bytes: [UInt8] = [UInt8(ascii: "[")]
    private(set) var count = 0
    /// The last row's.
    private(set) var key: MoveKey?

    var size: Int { bytes.count }
    var isEmpty: Bool { count == 0 }
    var json: String { String(decoding: bytes + [UInt8(ascii: "]")], as: UTF8.self) }

    mutating func append(_ row: borrowing Row, of table: MovedTable) {
        if count > 0 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "{"))
        for (index, column) in table.columns.enumerated() {
            bytes += (index > 0 ? ",\"" : "\"").utf8
            bytes += column.name.utf8
            bytes += "\":".utf8
            append(row, Int32(index), column.kind)
        }
        bytes.append(UInt8(ascii: "}"))
        count += 1
        key = MoveKey(table.key, of: row)
    }

    private mutating func append(_ row: borrowing Row, _ column: Int32, _ kind: MoveColumn.Kind) {
        guard !row.isNull(column) else {
            bytes += "null".utf8
            return
        }
        switch kind {
        case .int: bytes += "\(row.int(column))".utf8
        case .bool: bytes += (row.bool(column) ? "true" : "false").utf8
        case .text: appendString(row.text(column).utf8)
        case .uuid: appendString(Hex.encode(row.bytes(column)).utf8)
        case .bytes: appendString(("\\x" + Hex.encode(row.bytes(column))).utf8)
        case .shard:
            // The select gives both, as JSON gives two texts.
            let words = row.text(column).split(separator: "\u{0}", maxSplits: 1, omittingEmptySubsequences: false)
            bytes += "\(TokenShard.of(app: String(words[0]), token: String(words.last ?? "")))".utf8
        }
    }

    private mutating func appendString(_ text: some Sequence<UInt8>) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            // PostgreSQL keeps none in a text.
            case 0: bytes += "\u{FFFD}".utf8
            default:
                if let letter = JSONEscape.letter(byte) {
                    JSONEscape.append(byte, letter, to: &bytes)
                } else {
                    bytes.append(byte)
                }
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
