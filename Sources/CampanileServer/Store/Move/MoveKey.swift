import CampanileCore
import SQLEngine

/// A row's place in the order in which a table is moved: the values of its key, each of which SQLite can compare and a text can
/// keep.
struct MoveKey: Sendable, Equatable {
    enum Part: Sendable, Equatable {
        case int(Int64)
        case text(String)
        case bytes([UInt8])
    }

    var parts: [Part]

    /// Before all rows.
    init(before columns: [MoveColumn]) {
        parts = columns.map { column in
            switch column.kind {
            case .int, .bool, .shard: .int(.min)
            case .text: .text("")
            case .uuid, .bytes: .bytes([])
            }
        }
    }

    /// Of a row, whose first columns are the key.
    init(_ columns: [MoveColumn], of row: borrowing Row) {
        parts = []
        for (index, column) in columns.enumerated() {
            switch column.kind {
            case .int, .bool, .shard: parts.append(.int(row.int(Int32(index))))
            case .text: parts.append(.text(row.text(Int32(index))))
            case .uuid, .bytes: parts.append(.bytes(row.blob(Int32(index))))
            }
        }
    }

    /// As the table `move_state` keeps it; nil when it is of another program's making.
    init?(_ text: String) {
        parts = []
        for word in text.split(separator: " ") {
            let rest = word.dropFirst()
            switch word.first {
            case "i": if let number = Int64(rest) { parts.append(.int(number)) } else { return nil }
            case "t":
                if let bytes = Hex.decode(rest.utf8) {
                    parts.append(.text(String(decoding: bytes, as: UTF8.self)))
                } else {
                    return nil
                }
            case "b": if let bytes = Hex.decode(rest.utf8) { parts.append(.bytes(bytes)) } else { return nil }
            default: return nil
            }
        }
    }

    var text: String {
        parts.map { part in
            switch part {
            case .int(let number): "i\(number)"
            case .text(let text): "t" + Hex.encode(text.utf8)
            case .bytes(let bytes): "b" + Hex.encode(bytes)
            }
        }.joined(separator: " ")
    }
}

extension MoveKey.Part: SQLBindable {
    func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch self {
        case .int(let number): number.bindSQL(to: statement, at: index)
        case .text(let text): text.bindSQL(to: statement, at: index)
        case .bytes(let bytes): bytes.bindSQL(to: statement, at: index)
        }
    }
}
