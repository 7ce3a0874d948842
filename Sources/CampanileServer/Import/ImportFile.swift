import CampanileCore
import Glibc

/// A file that is read more than once, a piece at a time. What comes from a pipe is kept in a file without a name first, on the
/// database's disk: it may be larger than the memory.
final class ImportFile {
    /// Bytes read or copied at once.
    static let chunkBytes = 256 * 1_024

    let name: String
    let size: Int
    let format: ImportFormat
    private let descriptor: Int32

    /// - Parameters:
    ///   - path: `-` is standard input.
    ///   - folder: where what can't be read twice is kept.
    init(_ path: String, copiesTo folder: String) throws {
        name = path == "-" ? "Standard input" : path
        let opened = path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
        guard opened >= 0 else { throw ImportFile.failure(name, "can't be opened") }
        var status = stat()
        guard fstat(opened, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
            close(opened)
            throw OperatorError("\(name) is a folder.")
        }
        if status.st_mode & S_IFMT == S_IFREG {
            descriptor = opened
        } else {
            defer { close(opened) }
            descriptor = try ImportFile.copy(opened, name, to: folder)
            guard fstat(descriptor, &status) == 0 else { throw ImportFile.failure(name, "can't be read") }
        }
        size = Int(status.st_size)
        format = try ImportFormat(path, begin: ImportFile.begin(of: descriptor, name))
    }

    deinit { close(descriptor) }

    /// Reads bytes from a place on; what is added to the file meanwhile is not looked at.
    /// - Returns: how many were read; 0 at the end.
    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, min(buffer.count, max(0, size - offset)), off_t(offset))
            if count >= 0 { return count }
            guard errno == EINTR else { throw ImportFile.failure(name, "can't be read") }
        }
    }

    private static func begin(of descriptor: Int32, _ name: String) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 else { throw failure(name, "can't be read") }
        return Array(bytes.prefix(count))
    }

    private static func copy(_ source: Int32, _ name: String, to folder: String) throws -> Int32 {
        var template = Array("\(folder)/.campanile-import-XXXXXX".utf8CString)
        let copy = mkstemp(&template)
        guard copy >= 0 else { throw failure("A copy of \(name) in \(folder)", "can't be made") }
        unlink(template)
        var chunk = [UInt8](repeating: 0, count: chunkBytes)
        while true {
            let count = Glibc.read(source, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                guard count < 0 else { return copy }
                let failure = ImportFile.failure(name, "can't be read")
                close(copy)
                throw failure
            }
            var written = 0
            while written < count {
                let part = chunk[written..<count].withUnsafeBytes { write(copy, $0.baseAddress, $0.count) }
                guard part > 0 || errno == EINTR else {
                    let failure = ImportFile.failure("A copy of \(name) in \(folder)", "can't be written")
                    close(copy)
                    throw failure
                }
                written += max(0, part)
            }
        }
    }

    private static func failure(_ name: String, _ trouble: String) -> OperatorError {
        OperatorError("\(name) \(trouble): \(String(cString: strerror(errno))).")
    }
}

/// The form in which the records of a file are written.
enum ImportFormat: Sendable {
    /// RFC 4180, with a header.
    case csv
    /// A JSON object on each line.
    case ndjson

    /// By the file's name, or by its first character where the name doesn't say.
    init(_ path: String, begin: [UInt8]) throws {
        guard !begin.starts(with: [0xFF, 0xFE]), !begin.starts(with: [0xFE, 0xFF]) else {
            throw OperatorError("The file is UTF-16: write it as UTF-8.")
        }
        switch path.split(separator: ".").last?.lowercased() {
        case "csv" where path.contains("."): self = .csv
        case "ndjson" where path.contains("."), "jsonl" where path.contains("."): self = .ndjson
        default:
            let text = begin.starts(with: RecordReader.byteOrderMark) ? begin[3...] : begin[...]
            let first = text.first { $0 != 0x20 && !(0x09...0x0D).contains($0) }
            guard first != UInt8(ascii: "[") else {
                throw OperatorError("The file is one JSON array: write one object a line (NDJSON), or CSV.")
            }
            self = first == UInt8(ascii: "{") ? .ndjson : .csv
        }
    }
}
