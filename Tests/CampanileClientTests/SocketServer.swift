import Foundation
import Glibc

@testable import CampanileClient

/// A server on a socket of its own, which says to each connection what a test says, in a thread of its own.
final class SocketServer: Sendable {
    struct NoSocket: Error {}

    /// One client.
    struct Connection: Sendable {
        let descriptor: Int32

        /// Reads what the client sends, to the end of the head; empty once it is gone.
        func head() -> String {
            var bytes: [UInt8] = []
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) == 1 {
                bytes.append(byte)
                if bytes.suffix(4) == [13, 10, 13, 10] { return String(decoding: bytes, as: UTF8.self) }
            }
            return ""
        }

        /// - Returns: false when the client is gone.
        @discardableResult
        func say(_ text: String) -> Bool { say(Array(text.utf8)) }

        @discardableResult
        func say(_ bytes: [UInt8]) -> Bool {
            var rest = bytes[...]
            while !rest.isEmpty {
                let sent = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                guard sent > 0 else { return false }
                rest = rest.dropFirst(sent)
            }
            return true
        }

        /// Returns when the client is gone.
        func waitForEnd() {
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) == 1 {}
        }
    }

    let url: URL
    private let listener: Int32
    private let counted: Locked<Int>

    /// How many connections came.
    var connections: Int { counted.withLock { $0 } }

    /// - Parameter speak: gets each connection, which is closed when it returns.
    init(_ speak: @escaping @Sendable (Connection) -> Void) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, size) == 0 && listen(listener, 128) == 0 && getsockname(listener, address, &size) == 0
            }
        }
        guard isListening else { throw NoSocket() }
        let counted = Locked(0)
        self.listener = listener
        self.counted = counted
        url = .example("http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))/")
        Thread.detachNewThread {
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { break }
                counted.withLock { $0 += 1 }
                Thread.detachNewThread {
                    speak(Connection(descriptor: descriptor))
                    close(descriptor)
                }
            }
            close(listener)
        }
    }

    // The thread that accepts ends, and closes it.
    deinit { shutdown(listener, Int32(SHUT_RDWR)) }
}
