import CampanileCore
import Glibc

/// The listening socket that a supervisor opened and hands down, by the protocol of sd_listen_fds(3): three variables
/// of the environment, and descriptors from 3 on. While one server ends and the next one starts, new connections wait
/// in that socket.
package enum SocketActivation {
    private static let first: Int32 = 3
    private static let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]

    /// The descriptor that was handed down to this process, if one was. The variables are gone then, and the descriptor isn't
    /// handed on: no child may take it for its own. To be called before there are threads that read the environment.
    package static func take() throws -> Int32? {
        var environment: [String: String] = [:]
        for name in variables {
            if let value = getenv(name) { environment[name] = String(cString: value) }
        }
        defer { for name in variables { unsetenv(name) } }
        guard let descriptor = try descriptor(environment, process: getpid()) else { return nil }
        guard fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 else {
            throw OperatorError("LISTEN_FDS passes descriptor \(descriptor), which isn't open.")
        }
        return descriptor
    }

    /// The meaning of the variables for a process.
    static func descriptor(_ environment: [String: String], process: pid_t) throws -> Int32? {
        guard let receiver = environment["LISTEN_PID"] else { return nil }
        guard let receiver = number(receiver) else {
            throw OperatorError("LISTEN_PID must be the number of a process.")
        }
        // A parent's, left in the environment.
        guard receiver == process, let count = environment["LISTEN_FDS"] else { return nil }
        guard let count = number(count) else {
            throw OperatorError("LISTEN_FDS must be a whole number of at least 1.")
        }
        guard count == 1 else {
            throw OperatorError(
                "LISTEN_FDS passes \(count) descriptors, and the server takes one: "
                    + "the socket unit must have one ListenStream=.")
        }
        return first
    }

    private static func number(_ text: String) -> Int32? {
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let value = Int32(text), value > 0
        else { return nil }
        return value
    }
}
