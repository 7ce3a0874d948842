import Glibc
import Synchronization

/// A request: its head and body, in memory of its own. Usable from any thread and beyond the end of the connection.
///
/// Sendable: `notes` has a lock, and everything else is written only before the handler receives the request, and again
/// only when the connection has proved to be its sole owner.
package final class Request: @unchecked Sendable {
    /// The place of one header field in `storage`. The name is in lower case.
    struct Field {
        var name: Int32
        var nameLength: Int32
        var value: Int32
        var valueLength: Int32
    }

    /// The facts recorded about the request while it is handled.
    struct Notes: Sendable {
        var pattern: StaticString?
        /// The pattern's place among the router's.
        var patternIndex: Int?
        var parameters = Parameters()
    }

    /// Everything written once for each request. Behind a pointer, because Swift checks a class's own properties for
    /// overlapping accesses at run time, a dozen times for each request.
    struct Contents {
        var method: Method = .get
        var isHTTP10 = false
        var receivedAt: UInt64 = 0
        /// Number of the connection in this process and of the request on it: they name a request that has no name.
        var connectionNumber: UInt64 = 0
        var requestNumber: UInt64 = 0
        /// The number of the connection's thread.
        var worker = 0
        var peerAddress: IPAddress?
        /// The raw target, then the head.
        var storage = GrowingBytes()
        var body = GrowingBytes()
        var targetLength = 0
        var target = RequestTarget(path: 0..<0, query: nil)
        var fieldCount = 0
    }

    let contents: UnsafeMutablePointer<Contents>
    private let fields: UnsafeMutablePointer<Field>
    private let fieldCapacity: Int
    private let connections: ConnectionTable
    private let notes = Mutex(Notes())

    /// - Parameters:
    ///   - fieldCapacity: the most header fields it can hold.
    ///   - connections: where its connection is listed, as long as it is open.
    init(fieldCapacity: Int, connections: ConnectionTable) {
        self.fieldCapacity = fieldCapacity
        self.connections = connections
        fields = .allocate(capacity: max(fieldCapacity, 1))
        contents = .allocate(capacity: 1)
        contents.initialize(to: Contents())
    }

    deinit {
        contents.pointee.storage.deallocate()
        contents.pointee.body.deallocate()
        contents.deinitialize(count: 1)
        contents.deallocate()
        fields.deallocate()
    }
}

// MARK: - What the client sent

extension Request {
    package var method: Method { contents.pointee.method }

    /// True if the client speaks HTTP/1.0.
    package var isHTTP10: Bool { contents.pointee.isHTTP10 }

    /// The time at which the request line was complete, in monotonic nanoseconds.
    package var receivedAt: UInt64 { contents.pointee.receivedAt }

    /// The address of the connection's other end: the client's, or that of the proxy in front.
    package var peerAddress: IPAddress? { contents.pointee.peerAddress }

    /// The number of the thread that serves the request's connection, among the server's threads, from 0 on.
    package var worker: Int { contents.pointee.worker }

    /// True if the client has closed its connection, or at least its sending side: then it is taken for gone. Looks for the
    /// connection among all: for work that takes long, once in a while.
    package var isAbandoned: Bool { connections.isClosedByClient(contents.pointee.connectionNumber) }

    /// The target, then the head, as received, except that field names are in lower case.
    var storage: UnsafeRawBufferPointer { contents.pointee.storage.bytes }

    /// The places of path and query in the storage.
    var target: RequestTarget { contents.pointee.target }

    /// The target as sent, at most the limit's bytes. Valid as long as the request lives.
    package var rawTarget: UnsafeRawBufferPointer { storage.slice(0..<contents.pointee.targetLength) }

    /// The path as sent, neither decoded nor normalised. Valid as long as the request lives.
    package var rawPath: UnsafeRawBufferPointer { storage.slice(target.path) }

    /// The query as sent, without the question mark. Valid as long as the request lives.
    package var rawQuery: UnsafeRawBufferPointer? { target.query.map { storage.slice($0) } }

    /// The path as sent, as text, for logs and problem documents. ASCII, because the engine refuses everything else.
    package var path: String { String(decoding: rawPath, as: UTF8.self) }

    /// The body. Valid as long as the request lives.
    package var body: UnsafeRawBufferPointer { contents.pointee.body.bytes }

    /// The first value of a header field, copied; bytes that aren't UTF-8 are replaced.
    /// - Parameter lowercaseName: the field's name in lower case.
    package func header(_ lowercaseName: StaticString) -> String? {
        withHeader(lowercaseName) { $0.map { String(decoding: $0, as: UTF8.self) } }
    }

    /// The first value of a header field in place, without a copy; nil if the request doesn't have the field.
    /// - Parameter lowercaseName: the field's name in lower case.
    package func withHeader<R>(_ lowercaseName: StaticString, _ body: (UnsafeRawBufferPointer?) -> R) -> R {
        for index in 0..<contents.pointee.fieldCount {
            let field = fields[index]
            if fieldBytes(field.name, field.nameLength).equals(lowercaseName) {
                return body(trimmed(fieldBytes(field.value, field.valueLength)))
            }
        }
        return body(nil)
    }

    /// The value of a header field that may occur only once, in place; nil if it is missing or repeated.
    /// - Parameter lowercaseName: the field's name in lower case.
    package func withOnlyHeader<R>(_ lowercaseName: StaticString, _ body: (UnsafeRawBufferPointer?) -> R) -> R {
        var found: UnsafeRawBufferPointer?
        for index in 0..<contents.pointee.fieldCount {
            let field = fields[index]
            guard fieldBytes(field.name, field.nameLength).equals(lowercaseName) else { continue }
            guard found == nil else { return body(nil) }
            found = trimmed(fieldBytes(field.value, field.valueLength))
        }
        return body(found)
    }

    /// All values of a header field, in the order of the lines.
    package func headers(_ lowercaseName: StaticString) -> [String] {
        (0..<contents.pointee.fieldCount).compactMap { index in
            let field = fields[index]
            guard fieldBytes(field.name, field.nameLength).equals(lowercaseName) else { return nil }
            return String(decoding: trimmed(fieldBytes(field.value, field.valueLength)), as: UTF8.self)
        }
    }

    private func fieldBytes(_ offset: Int32, _ length: Int32) -> UnsafeRawBufferPointer {
        storage.slice(Int(offset)..<Int(offset) + Int(length))
    }

    /// Without trailing white space, which isn't part of the value (RFC 9112, section 5.1).
    private func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var end = bytes.count
        while end > 0, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return bytes.slice(0..<end)
    }

    /// The first value of a name in the query, decoded; nil if it isn't there or isn't UTF-8.
    /// A name without `=` has the empty value.
    package func query(_ name: StaticString) -> String? {
        let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        var found: String??
        forEachQueryItem { rawName, rawValue in
            guard found == nil, PercentCoding.equals(rawName, wanted) else { return }
            found = .some(PercentCoding.decode(rawValue, plusIsSpace: true))
        }
        return found ?? nil
    }

    /// Returns whether the query has a name, with any value.
    package func hasQuery(_ name: StaticString) -> Bool {
        let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        var isFound = false
        forEachQueryItem { rawName, _ in isFound = isFound || PercentCoding.equals(rawName, wanted) }
        return isFound
    }

    private func forEachQueryItem(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        guard let query = rawQuery else { return }
        var start = 0
        while start <= query.count {
            let end = query[start...].firstIndex(of: UInt8(ascii: "&")) ?? query.count
            if end > start {
                let equals = query[start..<end].firstIndex(of: UInt8(ascii: "="))
                let value = equals.map { $0 + 1..<end } ?? end..<end
                body(query.slice(start..<(equals ?? end)), query.slice(value))
            }
            start = end + 1
        }
    }
}

// MARK: - What is said about it

extension Request {
    /// The pattern of the route that answers, `/notifications/{id}`; nil before a route was found. For logs.
    package var routePattern: StaticString? {
        get { notes.withLock { $0.pattern } }
        set { notes.withLock { $0.pattern = newValue } }
    }

    /// The place of that pattern in the router's `patterns`; nil before a route was found.
    package var routePatternIndex: Int? { notes.withLock { $0.patternIndex } }

    /// A path parameter by its place in the pattern, percent-decoded once: a `%2F` belongs to the parameter.
    /// - Returns: nil if there is no such parameter or its bytes aren't UTF-8.
    package func parameter(_ index: Int) -> String? {
        parameters.range(index).flatMap { PercentCoding.decode(storage.slice($0), plusIsSpace: false) }
    }

    private var parameters: Parameters { notes.withLock { $0.parameters } }

    func matched(_ pattern: StaticString, index: Int, _ parameters: Parameters) {
        notes.withLock {
            $0.pattern = pattern
            $0.patternIndex = index
            $0.parameters = parameters
        }
    }

    /// The name of this request in logs and problem documents: the client's `X-Request-Id` if it consists of 1 to 64 of
    /// `A-Z a-z 0-9 . _ -`, else a name that is unique in this process, and very probably among all processes.
    package var id: String {
        let given: String? = withHeader("x-request-id") { value in
            guard let value, (1...64).contains(value.count), value.allSatisfy(RequestName.isAllowed) else { return nil }
            return String(decoding: value, as: UTF8.self)
        }
        return given
            ?? RequestName.make(
                connection: contents.pointee.connectionNumber, request: contents.pointee.requestNumber)
    }
}

// MARK: - Filling

extension Request {
    /// Makes the object ready for the next request.
    func reset() {
        contents.pointee.method = .get
        contents.pointee.storage.clear(keeping: 8_192)
        contents.pointee.body.clear(keeping: 8_192)
        contents.pointee.targetLength = 0
        contents.pointee.target = RequestTarget(path: 0..<0, query: nil)
        contents.pointee.fieldCount = 0
        notes.withLock { $0 = Notes() }
    }

    /// Adds a field. - Returns: false if there is no room for another one.
    func addField(_ field: Field) -> Bool {
        let count = contents.pointee.fieldCount
        guard count < fieldCapacity else { return false }
        fields[count] = field
        contents.pointee.fieldCount = count + 1
        return true
    }
}

/// Names for requests without one.
enum RequestName {
    /// Drawn once for each process, to distinguish two servers' requests in one log.
    private static let prefix = UInt64.random(in: 36 * 36 * 36 * 36 * 36..<36 * 36 * 36 * 36 * 36 * 36)

    /// Three numbers in base 36, mostly in 15 bytes at most, so that the String needs no heap memory.
    static func make(connection: UInt64, request: UInt64) -> String {
        String(unsafeUninitializedCapacity: 48) { buffer in
            var end = write(prefix, to: buffer, at: 0)
            buffer[end] = UInt8(ascii: "-")
            end = write(connection, to: buffer, at: end + 1)
            buffer[end] = UInt8(ascii: "-")
            return write(request, to: buffer, at: end + 1)
        }
    }

    /// - Returns: where the number ends.
    private static func write(_ number: UInt64, to buffer: UnsafeMutableBufferPointer<UInt8>, at start: Int) -> Int {
        var end = start + 1
        var rest = number / 36
        while rest > 0 {
            end += 1
            rest /= 36
        }
        rest = number
        for index in stride(from: end - 1, through: start, by: -1) {
            let digit = UInt8(truncatingIfNeeded: rest % 36)
            buffer[index] = digit < 10 ? 0x30 &+ digit : 0x57 &+ digit
            rest /= 36
        }
        return end
    }

    static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }
}
