import Synchronization

/// The text of a statement, or of a part of one.
///
/// A literal, or literals with other such texts between: code can't compose SQL from strings. Connections find what they have prepared
/// by the text's address, which stays as long as the program runs. A text with others in it is looked up each time it is made, so
/// that it has one address: keep that of a statement that runs often in a constant. Sendable, because nobody writes to the bytes.
@usableFromInline
package struct SQL: ExpressibleByStringInterpolation, @unchecked Sendable {
    /// UTF-8, and a NUL after it.
    @usableFromInline let start: UnsafePointer<UInt8>
    /// In bytes, without the NUL.
    @usableFromInline let count: Int

    @inlinable
    package init(stringLiteral literal: StaticString) {
        start = literal.utf8Start
        count = literal.utf8CodeUnitCount
    }

    @usableFromInline
    package init(stringInterpolation: StringInterpolation) {
        self = Self.kept(stringInterpolation.text)
    }

    /// The name of a table or a column that a database gave, in quotes.
    package static func name(_ name: String) -> SQL {
        kept("\"" + name.replacing("\"", with: "\"\"") + "\"")
    }

    @usableFromInline
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate(set) var text = ""

        @usableFromInline package init(literalCapacity: Int, interpolationCount: Int) {}
        @usableFromInline package mutating func appendLiteral(_ literal: StaticString) { text += literal.description }
        @usableFromInline package mutating func appendInterpolation(_ part: SQL) { text += part.description }
    }

    /// The texts that were put together, which are never freed.
    private static let texts = Mutex<[String: SQL]>([:])

    static func kept(_ text: String) -> SQL {
        texts.withLock { texts in
            if let known = texts[text] { return known }
            let bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.utf8.count + 1)
            _ = bytes.initialize(from: Array(text.utf8) + [0])
            let made = SQL(start: UnsafePointer(bytes.baseAddress!), count: text.utf8.count)
            texts[text] = made
            return made
        }
    }

    private init(start: UnsafePointer<UInt8>, count: Int) {
        self.start = start
        self.count = count
    }
}

extension SQL: CustomStringConvertible {
    @usableFromInline package var description: String {
        String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    /// As the engines' own libraries take it.
    var characters: UnsafePointer<CChar> { UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self) }
    /// Its identity.
    var address: UInt { UInt(bitPattern: start) }
}

/// A statement of both engines, or a part of one. Mostly one text; two where they say it differently.
@usableFromInline
package struct SQLText: ExpressibleByStringInterpolation, Sendable {
    @usableFromInline package let sqlite: SQL
    @usableFromInline package let postgres: SQL

    @inlinable
    package init(stringLiteral literal: StaticString) {
        sqlite = SQL(stringLiteral: literal)
        postgres = sqlite
    }

    /// Both take the same arguments, and give the same columns.
    @inlinable
    package init(sqlite: SQL, postgres: SQL) {
        self.sqlite = sqlite
        self.postgres = postgres
    }

    @usableFromInline
    package init(stringInterpolation parts: StringInterpolation) {
        self.init(sqlite: SQL(stringInterpolation: parts.sqlite), postgres: SQL(stringInterpolation: parts.postgres))
    }

    @usableFromInline
    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var sqlite = SQL.StringInterpolation(literalCapacity: 0, interpolationCount: 0)
        fileprivate var postgres = SQL.StringInterpolation(literalCapacity: 0, interpolationCount: 0)

        @usableFromInline package init(literalCapacity: Int, interpolationCount: Int) {}

        @usableFromInline package mutating func appendLiteral(_ literal: StaticString) {
            sqlite.appendLiteral(literal)
            postgres.appendLiteral(literal)
        }

        @usableFromInline package mutating func appendInterpolation(_ part: SQL) {
            appendInterpolation(SQLText(sqlite: part, postgres: part))
        }

        @usableFromInline package mutating func appendInterpolation(_ part: SQLText) {
            sqlite.appendInterpolation(part.sqlite)
            postgres.appendInterpolation(part.postgres)
        }
    }
}

/// Columns that are read and written together, named once.
package struct SQLColumns: ExpressibleByArrayLiteral, Sendable {
    let names: [SQL]

    package init(arrayLiteral names: SQL...) { self.names = names }
    package init(_ names: [SQL]) { self.names = names }

    package static func + (_ first: SQLColumns, _ second: SQLColumns) -> SQLColumns { SQLColumns(first.names + second.names) }

    /// `a, b`
    package var list: SQL { .list(names) }
    /// `t.a, t.b`
    package func of(_ table: SQL) -> SQL { .list(names.map { "\(table).\($0)" }) }
    /// `a = t.a, b = t.b`
    package func set(of table: SQL) -> SQL { .list(names.map { "\($0) = \(table).\($0)" }) }
    /// `$1, $2, $3`, of a row's id and its columns.
    package var argumentsWithID: SQL { .arguments(1...names.count + 1) }
    /// `a = $2, b = $3`
    package func set(from first: Int) -> SQL {
        .list(names.enumerated().map { "\($0.element) = \(SQL.argument(first + $0.offset))" })
    }
}

extension SQL {
    /// `a, b`
    package static func list(_ parts: [SQL]) -> SQL { kept(parts.map(\.description).joined(separator: ", ")) }
    static func argument(_ number: Int) -> SQL { kept("$\(number)") }
    /// `$1, $2`
    package static func arguments(_ numbers: ClosedRange<Int>) -> SQL { .list(numbers.map(argument)) }
}
