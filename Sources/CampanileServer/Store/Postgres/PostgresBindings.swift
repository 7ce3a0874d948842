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
    func inbox(_ column: Int32) -> InboxID { InboxID(number(column)) }
    func device(_ column: Int32) -> DeviceID { DeviceID(number(column)) }

    /// A count, a time, a sequence or a row's number. Sums of such can't overflow.
    func number(_ column: Int32) -> Int64 {
        let value = int(column)
        return value.isStorable ? value : substitute(column, "holds no such number", 0)
    }

    func numberOrNil(_ column: Int32) -> Int64? { isNull(column) ? nil : number(column) }

    /// An id that can't be missing: the schema says NOT NULL, and only this program writes it.
    func id(_ column: Int32) -> UUIDv7 {
        UUIDv7(bytes: bytes(column)) ?? substitute(column, "holds no id", .least)
    }

    func idOrNil(_ column: Int32) -> UUIDv7? { isNull(column) ? nil : id(column) }
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
