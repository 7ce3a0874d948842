import Glibc

/// A small file, read whole.
enum FileContent {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    static func read(_ path: String, maxBytes: Int) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw Failure(description: "\(path) can't be read: \(String(cString: strerror(errno))).")
        }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 * 1_024)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            guard count >= 0 else {
                throw Failure(description: "\(path) can't be read: \(String(cString: strerror(errno))).")
            }
            if count == 0 { return bytes }
            bytes += chunk.prefix(count)
            guard bytes.count <= maxBytes else { throw Failure(description: "\(path) is larger than \(maxBytes) bytes.") }
        }
    }
}
