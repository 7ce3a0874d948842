public import CampanileCore
public import SQLEngine

/// Ids are PostgreSQL's uuid: 16 bytes, in the order of the ids.
extension UUIDv7: PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { 2950 }
    @usableFromInline package static var postgresArrayType: UInt32 { 2951 }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(high)
        buffer.append(low)
        return true
    }
}

extension Timestamp: PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { Int64.postgresType }
    @usableFromInline package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        milliseconds.appendPostgres(to: &buffer)
    }
}

extension InboxID: PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { Int64.postgresType }
    @usableFromInline package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        rawValue.appendPostgres(to: &buffer)
    }
}

extension DeviceID: PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { Int64.postgresType }
    @usableFromInline package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        rawValue.appendPostgres(to: &buffer)
    }
}

extension APIKeyID: PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { Int64.postgresType }
    @usableFromInline package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        rawValue.appendPostgres(to: &buffer)
    }
}

extension PostgresRow {
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
