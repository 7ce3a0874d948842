package import CampanileCore
import Glibc

/// A file that every request is added to, a line of JSON each, before its answer goes out. Nothing is left out: who writes
/// waits for the file, and so do the senders behind him.
package final class RequestFile: Sendable {
    private let descriptor: Int32
    private let path: String
    private let onFailure: @Sendable (String) -> Void

    /// What the file holds already stays in it.
    /// - Parameter onFailure: gets a sentence when a line can't be written. A record with a gap is none: whoever needs it
    ///   ends here.
    package init(path: String, onFailure: @escaping @Sendable (String) -> Void) throws(OperatorError) {
        // Device tokens and texts are the business of whoever runs it.
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        self.path = path
        self.onFailure = onFailure
        guard descriptor >= 0 else {
            throw OperatorError("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// One at a time: the caller has the lock of all requests.
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
