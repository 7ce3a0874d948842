import Synchronization
import SystemSupport

/// Sends ids to all that listen on a channel, on a connection and a thread of its own: gathered for a moment, and outside any
/// transaction of data, because commits that notify wait for each other. It drops ids when it can't keep up or the server can't
/// be reached: they are only hints.
///
/// Sendable because what changes is under the lock, and the thread alone uses the connection.
package final class PostgresNotifier: Sendable {
    private let thread: ServiceThread
    private let box: Box

    /// The ids that wait.
    private final class Box: Sendable {
        struct State {
            var ids: Set<Int64> = []
            var dropped = 0
            var isAwake = false
        }

        let state = Mutex(State())
    }

    /// The most ids that wait.
    private static let limit = 20_000
    /// The most bytes of a payload; PostgreSQL takes fewer than 8,000
    /// (https://www.postgresql.org/docs/15/sql-notify.html).
    static let payloadBytes = 7_900

    /// - Parameters:
    ///   - prefix: what each payload begins with; then come the ids, with commas between them.
    ///   - pauseMilliseconds: the least time between two notifications. Each wakes up all that listen, so that while much is written
    ///     their number costs more than what they carry. After a longer silence ids are gathered for a moment only.
    /// - Throws: `SQLError` (`noMemory`) when the system has no thread.
    package init(
        _ address: PostgresAddress, options: PostgresOptions = .init(), channel: String, prefix: String = "",
        pauseMilliseconds: Int = 20
    ) throws {
        let box = Box()
        self.box = box
        thread = try ServiceThread("sql-notifier") { wake in
            var sending = Sending(address: address, options: options, channel: channel, prefix: prefix, box: box, wake: wake)
            while !wake.isClosing {
                wake.wait(milliseconds: -1)
                // A close wakes up as well.
                if !wake.isClosing { wake.wait(milliseconds: sending.gatheringMilliseconds(pause: pauseMilliseconds)) }
                sending.sendAll()
            }
            // What came before the thread had begun, or while it sent.
            sending.sendAll()
            sending.connection?.close()
        }
    }

    deinit {
        close()
    }

    /// Sends the ids soon, if it can.
    package func notify(_ ids: some Sequence<Int64>) {
        let isFirst = box.state.withLock { state in
            for id in ids {
                if state.ids.count < Self.limit { state.ids.insert(id) } else { state.dropped += 1 }
            }
            guard !state.isAwake, !state.ids.isEmpty else { return false }
            state.isAwake = true
            return true
        }
        if isFirst { thread.wake.wake() }
    }

    /// Ids that weren't sent.
    package var dropped: Int { box.state.withLock(\.dropped) }

    /// Sends what waits, and ends the thread. Idempotent.
    package func close() { thread.close() }

    /// The notifier's thread.
    private struct Sending {
        let address: PostgresAddress
        let options: PostgresOptions
        let channel: String
        let prefix: String
        let box: Box
        let wake: WakeUp
        var connection: PostgresConnection?
        /// In nanoseconds of `MonotonicClock`; nil before the first. Zero would be the machine's start, which may be a moment ago.
        private var lastSent: UInt64?
        /// When it may connect again, and the pause after the next failure, in nanoseconds.
        private var nextAttempt: UInt64 = 0
        private var pause: UInt64 = 50_000_000

        init(
            address: PostgresAddress, options: PostgresOptions, channel: String, prefix: String, box: Box, wake: WakeUp
        ) {
            (self.address, self.options, self.channel, self.prefix) = (address, options, channel, prefix)
            (self.box, self.wake) = (box, wake)
        }

        /// How long ids are gathered from now on.
        func gatheringMilliseconds(pause: Int) -> Int {
            let moment = min(pause, 2)
            guard let lastSent else { return moment }
            let passed = (MonotonicClock.now() - lastSent) / 1_000_000
            return max(pause - Int(min(passed, UInt64(pause))), moment)
        }

        mutating func sendAll() {
            defer { lastSent = MonotonicClock.now() }
            let ids = box.state.withLock { state in
                state.isAwake = false
                defer { state.ids = [] }
                return state.ids
            }
            guard !ids.isEmpty else { return }
            do {
                let connection = try connected()
                let payloads = PostgresNotifier.payloads(of: ids.sorted(), prefix: prefix)
                try connection.forEach(
                    "SELECT pg_notify($1, u.payload) FROM unnest($2) AS u (payload)", channel, try PostgresArray(payloads)
                ) { _ in }
            } catch {
                box.state.withLock { $0.dropped += ids.count }
                if connection?.isOpen == false { connection = nil }
            }
        }

        private mutating func connected() throws -> PostgresConnection {
            if let connection, connection.isAlive { return connection }
            connection?.close()
            connection = nil
            guard MonotonicClock.now() >= nextAttempt else { throw SQLError(code: .connectionLost, sqlState: "08001") }
            do {
                let opened = try PostgresConnection(address, options: options, for: .listen)
                connection = opened
                pause = 50_000_000
                return opened
            } catch {
                nextAttempt = MonotonicClock.now() + pause
                pause = min(pause * 2, 1_000_000_000)
                throw error
            }
        }
    }

    /// The ids, with commas, in as few payloads as hold them.
    static func payloads(of ids: [Int64], prefix: String) -> [String] {
        var payloads: [String] = []
        var present = prefix
        for id in ids {
            let text = String(id)
            if present.utf8.count > prefix.utf8.count {
                if present.utf8.count + 1 + text.utf8.count < payloadBytes {
                    present += ","
                } else {
                    payloads.append(present)
                    present = prefix
                }
            }
            present += text
        }
        if present.utf8.count > prefix.utf8.count { payloads.append(present) }
        return payloads
    }
}
