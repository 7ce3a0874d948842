/// A parameter that is an array of one dimension, for `unnest`: a column of rows that are written together.
///
/// It keeps its elements in the server's format and not as values. Source: `array_recv` in
/// `src/backend/utils/adt/arrayfuncs.c` of PostgreSQL.
@usableFromInline
package struct PostgresArray<Element: PostgresBindable>: PostgresBindable, Sendable {
    @usableFromInline var elements = PostgresBuffer()
    @usableFromInline var hasNull = false
    @usableFromInline package internal(set) var count = 0

    @inlinable
    package init() {}

    /// - Throws: as `append`.
    @inlinable
    package init(_ elements: some Sequence<Element>) throws {
        for element in elements { try append(element) }
    }

    /// - Throws: as `append`.
    @inlinable
    package init(optional elements: some Sequence<Element?>) throws {
        for element in elements { try append(element) }
    }

    @inlinable
    package var isEmpty: Bool { count == 0 }

    /// Appends an element; `nil` is NULL.
    ///
    /// - Throws: `SQLError` (`unstorable`) when PostgreSQL can't hold the value. Then nothing is appended.
    @inlinable
    package mutating func append(_ element: Element?) throws {
        let start = elements.count
        elements.append(-1 as Int32)
        guard let element, try appendValue(element, from: start) else {
            hasNull = true
            count += 1
            return
        }
        let length = Int32(elements.count - start - 4)
        withUnsafeBytes(of: length.bigEndian) { elements.bytes.replaceSubrange(start..<start + 4, with: $0) }
        count += 1
    }

    @usableFromInline
    mutating func appendValue(_ element: Element, from start: Int) throws -> Bool {
        do {
            return try element.appendPostgres(to: &elements)
        } catch {
            elements.bytes.removeLast(elements.count - start)
            throw error
        }
    }

    /// Removes the elements and keeps the memory.
    @inlinable
    package mutating func removeAll() {
        elements.bytes.removeAll(keepingCapacity: true)
        hasNull = false
        count = 0
    }

    @inlinable package static var postgresType: UInt32 { Element.postgresArrayType }
    /// PostgreSQL has no arrays of arrays, so nothing asks for it.
    @inlinable package static var postgresArrayType: UInt32 { Element.postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append((isEmpty ? 0 : 1) as Int32)  // dimensions
        buffer.append((hasNull ? 1 : 0) as Int32)
        buffer.append(Element.postgresType)
        if !isEmpty {
            buffer.append(Int32(count))
            buffer.append(1 as Int32)  // the first index
            buffer.append(elements.bytes)
        }
        return true
    }
}
