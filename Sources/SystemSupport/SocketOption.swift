import Glibc

/// Options of sockets whose values are numbers.
package enum SocketOption {
    /// - Returns: whether the socket took it; `errno` says why not.
    @discardableResult
    package static func set(_ name: Int32, level: Int32 = SOL_SOCKET, to value: Int32, of descriptor: Int32) -> Bool {
        withUnsafePointer(to: value) { setsockopt(descriptor, level, name, $0, socklen_t(MemoryLayout<Int32>.size)) == 0 }
    }
}
