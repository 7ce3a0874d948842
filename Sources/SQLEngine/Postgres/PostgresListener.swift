import CPostgres
import Glibc
import SystemSupport

/// Waits for notifications on one channel, on a connection and a thread of its own. It connects again by itself: what was sent
/// meanwhile is lost, so a notification is only ever a hint.
///
/// Sendable because the thread alone uses the connection, and the descriptors are made before it and closed after it.
package final class PostgresListener: Sendable {
    package enum Event: Sendable, Equatable {
        /// From now on notifications come. Some may have been missed.
        case connected
        /// The server can't be reached, or doesn't do what it is asked. Told once, until it is `connected`.
        case lost(SQLError)
        /// The server, or the pooler before it, has no notifications. Told once, until it is `connected`; asked for again now and
        /// then.
        case refused(SQLError)
        case payload(String)
    }

    private let thread: ServiceThread

    /// - Parameters:
    ///   - channel: letters, digits and `_`.
    ///   - tell: called on the listener's thread, and must not block.
    /// - Throws: `SQLError` (`noMemory`) when the system has no thread.
    package init(
        _ address: PostgresAddress, options: PostgresOptions = .init(), channel: String,
        _ tell: @escaping @Sendable (Event) -> Void
    ) throws {
        guard !channel.isEmpty, channel.utf8.allSatisfy({ $0 == 95 || isalnum(Int32($0)) != 0 }) else {
            misuse("a channel of letters, digits and _, not \(channel)")
        }
        thread = try ServiceThread("sql-listener") { wake in
            var listening = Listening(address: address, options: options, channel: channel, wake: wake, tell: tell)
            listening.run()
        }
    }

    deinit {
        close()
    }

    /// Ends the thread; waits for it, but on the thread itself. Idempotent.
    package func close() { thread.close() }
}

/// The listener's thread.
private struct Listening {
    let address: PostgresAddress
    let options: PostgresOptions
    let channel: String
    let wake: WakeUp
    let tell: @Sendable (PostgresListener.Event) -> Void
    /// The code of the error that it has told of; nil while there is none, and again once it is connected.
    private var trouble: ResultCode?

    /// Milliseconds until it asks again, after a refusal.
    private static let seldom = 60_000

    init(
        address: PostgresAddress, options: PostgresOptions, channel: String, wake: WakeUp,
        tell: @escaping @Sendable (PostgresListener.Event) -> Void
    ) {
        (self.address, self.options, self.channel, self.wake, self.tell) = (address, options, channel, wake, tell)
    }

    mutating func run() {
        var pause = 50
        while !wake.isClosing {
            do {
                try listen()
            } catch {
                let error = error as? SQLError ?? SQLError(code: .connectionLost, sqlState: "08006")
                if trouble == nil { pause = 50 }
                let isRefused = [.refused, .denied].contains(error.code)
                if trouble != error.code, !wake.isClosing { tell(isRefused ? .refused(error) : .lost(error)) }
                trouble = error.code
                wake.wait(milliseconds: isRefused ? Self.seldom : pause)
                pause = min(pause * 2, 1_000)
            }
        }
    }

    /// Returns when it is to end.
    private mutating func listen() throws {
        let connection = try PostgresConnection(address, options: options, for: .listen)
        defer { connection.close() }
        try connection.script("LISTEN \(channel)")
        trouble = nil
        tell(.connected)
        while !wake.isClosing {
            for payload in try connection.waitForNotifications(orWakeUp: wake) where !wake.isClosing { tell(.payload(payload)) }
        }
    }
}

extension PostgresConnection {
    /// The payloads of the notifications that came; none when it was woken up.
    fileprivate func waitForNotifications(orWakeUp wake: WakeUp) throws -> [String] {
        var payloads: [String] = []
        while let notice = cpq_notifies(handle) {
            payloads.append(String(cString: notice.pointee.extra))
            cpq_freemem(notice)
        }
        guard payloads.isEmpty else { return payloads }
        wake.wait(milliseconds: -1, or: cpq_socket(handle))
        guard cpq_consumeInput(handle) == 1, cpq_status(handle) == CONNECTION_OK else { throw lost(nil) }
        return []
    }
}
