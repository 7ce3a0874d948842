public import CampanileCore
public import SQLEngine

/// Ids stand in the database as 16 bytes, whose order is the order of the ids.
extension UUIDv7: SQLBindable {
    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        bytes.bindSQL(to: statement, at: index)
    }
}

extension Timestamp: SQLBindable {
    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        milliseconds.bindSQL(to: statement, at: index)
    }
}

extension InboxID: SQLBindable {
    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        rawValue.bindSQL(to: statement, at: index)
    }
}

extension DeviceID: SQLBindable {
    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        rawValue.bindSQL(to: statement, at: index)
    }
}

extension APIKeyID: SQLBindable {
    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        rawValue.bindSQL(to: statement, at: index)
    }
}

extension Row {
    func inbox(_ column: Int32) -> InboxID { InboxID(number(column)) }
    func device(_ column: Int32) -> DeviceID { DeviceID(number(column)) }

    /// A count, a time, a sequence or a row's number. Sums of such can't overflow.
    func number(_ column: Int32) -> Int64 {
        let value = int(column)
        return value.isStorable ? value : substitute(column, "holds no such number", 0)
    }

    func numberOrNil(_ column: Int32) -> Int64? {
        guard let value = intOrNil(column) else { return nil }
        return value.isStorable ? value : substitute(column, "holds no such number", 0)
    }

    /// An id that can't be missing: the schema says NOT NULL, and only this program writes it.
    func id(_ column: Int32) -> UUIDv7 {
        UUIDv7(bytes: bytes(column)) ?? substitute(column, "holds no id", .least)
    }

    /// The bytes of such an id, where SQLite keeps them.
    func idBytes(_ column: Int32) -> UnsafeRawBufferPointer {
        let bytes = bytes(column)
        return bytes.count == 16
            ? bytes : substitute(column, "holds no id", UnsafeRawBufferPointer(start: Row.noID.utf8Start, count: 16))
    }

    private static let noID: StaticString = "no id of 16 byte"

    func idOrNil(_ column: Int32) -> UUIDv7? {
        bytesOrNil(column).map { UUIDv7(bytes: $0) ?? substitute(column, "holds no id", .least) }
    }

    func time(_ column: Int32) -> Timestamp { Timestamp(milliseconds: number(column)) }
    func timeOrNil(_ column: Int32) -> Timestamp? { numberOrNil(column).map { Timestamp(milliseconds: $0) } }

    /// A word that the schema or this program restricts to the cases of `Word`.
    func word<Word: RawRepresentable & CaseIterable>(_ column: Int32, _: Word.Type) -> Word where Word.RawValue == String {
        Word(rawValue: text(column)) ?? substitute(column, "holds an unknown word", Word.allCases[Word.allCases.startIndex])
    }

    /// What a closure gets in the place of a value that only a damaged database has.
    @inline(never)
    func substitute<Value>(_ column: Int32, _ finding: String, _ value: Value) -> Value {
        damaged(column, finding)
        return value
    }
}
