package import CampanileCore
import Glibc

/// A file to which the simulator appends every request, a line of JSON each, before its answer goes out. It leaves none
/// out: the writing thread waits for the file, and so do the senders.
package final class RequestFile: Sendable {
    private let descriptor: Int32
    private let path: String
    private let onFailure: @Sendable (String) -> Void

    /// Keeps the file's content and appends to it.
    /// - Parameter onFailure: gets a sentence when a line can't be written. A record with a gap is useless, so end the
    ///   program then.
    package init(path: String, onFailure: @escaping @Sendable (String) -> Void) throws(OperatorError) {
        // Only the owner may read it: it holds device tokens and texts.
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        self.path = path
        self.onFailure = onFailure
        guard descriptor >= 0 else {
            throw OperatorError("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Call it with the lock of all requests held: one at a time.
    func add(_ record: RequestRecord) {
        let line = record.json.text + [UInt8(ascii: "\n")]
        line.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count >= 0 {
                    rest = rest.dropFirst(count)
                } else if errno != EINTR {
                    return onFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
                }
            }
        }
    }
}
