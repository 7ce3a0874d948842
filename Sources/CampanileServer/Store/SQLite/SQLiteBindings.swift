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
    func inbox(_ column: Int32) -> InboxID { InboxID(int(column)) }
    func device(_ column: Int32) -> DeviceID { DeviceID(int(column)) }

    /// An id that can't be missing: the schema says NOT NULL, and only this program writes it.
    func id(_ column: Int32) -> UUIDv7 {
        guard let id = UUIDv7(bytes: bytes(column)) else { fatalError("column \(column) holds no id") }
        return id
    }

    func idOrNil(_ column: Int32) -> UUIDv7? { isNull(column) ? nil : id(column) }
    func time(_ column: Int32) -> Timestamp { Timestamp(milliseconds: int(column)) }
    func timeOrNil(_ column: Int32) -> Timestamp? { intOrNil(column).map { Timestamp(milliseconds: $0) } }

    /// A word that the schema or this program restricts to the cases of `Word`.
    func word<Word: RawRepresentable>(_ column: Int32, _: Word.Type) -> Word where Word.RawValue == String {
        guard let word = Word(rawValue: text(column)) else { fatalError("column \(column) holds an unknown word") }
        return word
    }
}
