import CampanileCore

/// A record of a file: its fields, or what is wrong with its form.
struct ImportRecord {
    /// The line on which it begins, from 1.
    let line: Int
    /// Its place among the records, from 0.
    let number: Int
    let content: Result<[JSONValue.Member], Mistake>
}

/// Reads a file record by record, in bounded memory.
struct RecordReader {
    static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let file: ImportFile
    private let columns: Set<String>
    private var buffer: [UInt8] = []
    /// The beginning of what isn't read yet, in the buffer.
    private var position = 0
    /// The buffer's end in the file.
    private var offset = 0
    private var line = 1
    private var number = 0
    private var header: [String]?
    private var csv = CSVRecord()
    private var isAtEnd = false

    /// Bytes of the file that were read.
    var readBytes: Int { offset - (buffer.count - position) }

    /// - Parameter columns: the names that a record may have.
    /// - Throws: `OperatorError` when the header of a CSV file can't be used.
    init(_ file: ImportFile, columns: Set<String>, required: [String]) throws {
        self.file = file
        self.columns = columns
        _ = try fill()
        if buffer.starts(with: RecordReader.byteOrderMark) { position = 3 }
        if file.format == .csv { header = try readHeader(required) }
    }

    /// The next record; nil at the end.
    mutating func next() throws -> ImportRecord? {
        while !isAtEnd {
            let first = line
            let content: Result<[JSONValue.Member], Mistake>?
            switch file.format {
            case .csv: content = try nextCSV()
            case .ndjson: content = try nextLine()
            }
            guard let content else { continue }
            defer { number += 1 }
            return ImportRecord(line: first, number: number, content: content)
        }
        return nil
    }

    // MARK: - Bytes

    /// Reads on.
    /// - Returns: whether there was more.
    private mutating func fill() throws -> Bool {
        let (file, offset, rest) = (file, offset, buffer[position...])
        // Not by appending zeros to be read over: a debug build appends them one by one.
        buffer = try [UInt8](unsafeUninitializedCapacity: rest.count + ImportFile.chunkBytes) { space, count in
            _ = space.initialize(from: rest)
            let free = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(space)[rest.count...])
            count = rest.count + (try file.read(at: offset, into: free))
        }
        let count = buffer.count - rest.count
        position = 0
        self.offset += count
        guard count > 0 || offset == file.size else { throw OperatorError("\(file.name) became shorter while it was read.") }
        return count > 0
    }

    // MARK: - Lines of JSON

    /// - Returns: nil for an empty line, and at the end.
    private mutating func nextLine() throws -> Result<[JSONValue.Member], Mistake>? {
        var searched = position
        var isTooLong = false
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { (position, line) = (end + 1, line + 1) }
                return isTooLong ? .failure(Self.tooLong) : Self.members(buffer[position..<end], columns)
            }
            if buffer.count - position > Limits.importedRecordBytes {
                // The rest of the line is passed over.
                isTooLong = true
                position = buffer.count
            }
            searched = buffer.count - position
            guard try fill() else {
                isAtEnd = true
                defer { position = buffer.count }
                return isTooLong ? .failure(Self.tooLong) : Self.members(buffer[position...], columns)
            }
        }
    }

    private static let tooLong = Mistake("The record is longer than \(Limits.importedRecordBytes) bytes.")

    private static func members(
        _ bytes: ArraySlice<UInt8>, _ columns: Set<String>
    ) -> Result<[JSONValue.Member], Mistake>? {
        guard bytes.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return nil }
        guard bytes.count <= Limits.importedRecordBytes else { return .failure(tooLong) }
        let value: JSONValue
        do {
            value = try JSONValue(parsing: Array(bytes))
        } catch {
            return .failure(Mistake("The line is not valid JSON: \(error.reason) at byte \(error.offset)."))
        }
        guard case .object(let members) = value else { return .failure(Mistake("The line must be a JSON object.")) }
        if let unknown = members.first(where: { !columns.contains($0.key) }) {
            return .failure(Mistake(unknownColumn(unknown.key, columns)))
        }
        return .success(members)
    }

    private static func unknownColumn(_ name: String, _ columns: Set<String>) -> String {
        let known = "the columns are \(columns.sorted().joined(separator: ", "))."
        return "\(quotedInSentence(String(name.prefix(64)))) is not a column: \(known)"
    }

    // MARK: - CSV

    private mutating func readHeader(_ required: [String]) throws -> [String] {
        guard try readCSV() else { throw OperatorError("\(file.name) is empty: its first line must name the columns.") }
        if let mistake = csv.mistake { throw OperatorError("line 1: \(mistake.sentence)") }
        var names: [String] = []
        var mistakes: [String] = []
        for field in csv.fields {
            let name = String(decoding: csv.text(field), as: UTF8.self)
            if names.contains(name) { mistakes.append("The column \(quotedInSentence(name)) is there twice.") }
            if !columns.contains(name) { mistakes.append(RecordReader.unknownColumn(name, columns)) }
            names.append(name)
        }
        mistakes += required.filter { !names.contains($0) }.map { "The column \($0) is missing." }
        if names.count == 1, let name = names.first, name.contains(";") || name.contains("\t") {
            mistakes = ["The columns must be separated by commas."]
        }
        guard mistakes.isEmpty else {
            throw OperatorError((["The first line of \(file.name), which names the columns:"] + mistakes).joined(separator: "\n"))
        }
        return names
    }

    /// - Returns: nil for an empty line, and at the end.
    private mutating func nextCSV() throws -> Result<[JSONValue.Member], Mistake>? {
        guard try readCSV(), let header else {
            isAtEnd = true
            return nil
        }
        if let mistake = csv.mistake {
            if csv.isEndless { isAtEnd = true }
            return .failure(mistake)
        }
        if csv.isBlank { return nil }
        guard csv.fields.count == header.count else {
            let fields = csv.fields.count == 1 ? "1 field" : "\(csv.fields.count) fields"
            return .failure(Mistake("The line has \(fields), and the header \(header.count)."))
        }
        var members: [JSONValue.Member] = []
        members.reserveCapacity(header.count)
        for (name, field) in zip(header, csv.fields) where !field.isEmpty {
            let bytes = csv.text(field)
            if name == "data" {
                guard let value = try? JSONValue(parsing: Array(bytes)) else {
                    return .failure(Mistake("data must be a JSON object."))
                }
                members.append(JSONValue.Member(name, value))
            } else if let text = bytes.withUnsafeBufferPointer({ String(validating: $0, as: UTF8.self) }) {
                members.append(JSONValue.Member(name, .string(text)))
            } else {
                return .failure(Mistake("\(name) is not UTF-8."))
            }
        }
        return .success(members)
    }

    /// Reads the next record of a CSV file into `csv`.
    /// - Returns: false at the end.
    private mutating func readCSV() throws -> Bool {
        while true {
            let isLast = offset >= file.size
            if let end = csv.read(buffer, from: position, isLast: isLast) {
                line += csv.lines
                if end - position > Limits.importedRecordBytes { csv.refuse(RecordReader.tooLong) }
                position = end
                return true
            }
            guard buffer.count - position <= Limits.importedRecordBytes else {
                csv.giveUp("\(RecordReader.tooLong.sentence) A quote may open here that nothing closes.")
                isAtEnd = true
                position = buffer.count
                return true
            }
            guard try fill() else { return false }
        }
    }
}
