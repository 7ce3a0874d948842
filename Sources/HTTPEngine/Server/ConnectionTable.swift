import CMicroHTTPD
import Glibc
import Synchronization

/// Every open connection. Threads other than its own shut a socket down only under this table's lock and only while its
/// connection is in the table. The library reports a connection closed before it closes the socket
/// (`MHD_cleanup_connections`), so the system can't have reused the descriptor.
final class ConnectionTable: Sendable {
    private struct Entries {
        var open: [Connection] = []
        var opened: UInt64 = 0
        /// The library's threads, each in the place of its number.
        var workers: [pthread_t] = []
        /// Counts of ended connections.
        var requestsBegun: UInt64 = 0
        var requestsEnded: UInt64 = 0
        var overdue: UInt64 = 0
    }

    private let entries = Mutex(Entries())

    /// Accepted and not yet closed. Ahead of `count`, because the library reports a connection started only when its
    /// thread handles it.
    private let accepted = Atomic<Int>(0)
    var acceptedCount: Int { accepted.load(ordering: .relaxed) }
    func countAccepted() { accepted.add(1, ordering: .relaxed) }
    func countReleased() { accepted.subtract(1, ordering: .relaxed) }

    /// Adds the connection that the closure makes from its number in this process and that of the calling thread, which is
    /// the connection's for good.
    func add(_ make: (_ number: UInt64, _ worker: Int) -> Connection) -> Connection {
        entries.withLock { entries in
            entries.opened += 1
            let thread = pthread_self()
            let known = entries.workers.firstIndex(of: thread)
            if known == nil { entries.workers.append(thread) }
            let connection = make(entries.opened, known ?? entries.workers.count - 1)
            connection.slot = entries.open.count
            entries.open.append(connection)
            return connection
        }
    }

    func remove(_ connection: Connection) {
        countReleased()
        entries.withLock { entries in
            let slot = connection.slot
            guard let last = entries.open.popLast() else { return }
            if last !== connection {
                entries.open[slot] = last
                last.slot = slot
            }
            let counts = connection.requestCounts
            entries.requestsBegun += counts.begun
            entries.requestsEnded += counts.ended
        }
    }

    /// Leaves the socket to the application: from now on the engine only closes the library's descriptor of it.
    func giveAway(_ connection: Connection) {
        entries.withLock { _ in connection.isTaken = true }
    }

    func forEach(_ body: (Connection) -> Void) {
        entries.withLock { $0.open.forEach(body) }
    }

    /// The number of connections with a request line that isn't fully answered.
    var busyCount: Int {
        entries.withLock { $0.open.count { $0.stages.current.stage.isOwedAnswer } }
    }

    /// The number of connections that have not sent their first request line, including those that the library's
    /// threads haven't handled.
    var unusedCount: Int {
        entries.withLock { entries in
            max(0, acceptedCount - entries.open.count) + entries.open.count { $0.requestCounts.begun == 0 }
        }
    }

    /// Ends the connections that are owed no answer. It ends only their reading (`SHUT_RD`): the library still reads and
    /// answers a request that has arrived.
    func finishIdle() {
        entries.withLock { entries in
            for connection in entries.open where !connection.isTaken && !connection.stages.current.stage.isOwedAnswer {
                _ = shutdown(connection.socket, Int32(SHUT_RD))
            }
        }
    }

    /// Ends every connection that has overstayed, by `shutdown`; only the library calls `close`.
    /// - Returns: how many.
    @discardableResult
    func shutDownOverdue(now: UInt64, limits: Limits) -> Int {
        entries.withLock { entries in
            var ended = 0
            for connection in entries.open where !connection.isTaken {
                let (stage, since) = connection.stages.current
                guard stage.isOverdue(since: since, now: now, limits: limits) else { continue }
                _ = shutdown(connection.socket, Int32(SHUT_RDWR))
                ended += 1
            }
            entries.overdue += UInt64(ended)
            return ended
        }
    }

    /// Ends every connection. Bytes of an answer that the kernel has still arrive.
    func shutDownAll() {
        entries.withLock { entries in
            for connection in entries.open where !connection.isTaken { MicroHTTPD075.shutDownBeforeStop(connection.socket) }
        }
    }

    /// Ends the connections whose client's hang-up the library missed: see `MicroHTTPD075.noticeHangup`.
    /// - Returns: how many.
    @discardableResult
    func noticeHangups() -> Int {
        entries.withLock { entries in
            var polls: [pollfd] = []
            polls.reserveCapacity(entries.open.count)
            for connection in entries.open where !connection.isTaken && connection.stages.current.stage.readsFromClient {
                polls.append(pollfd(fd: connection.socket, events: Int16(POLLIN), revents: 0))
            }
            guard poll(&polls, nfds_t(polls.count), 0) > 0 else { return 0 }
            return polls.count { $0.revents != 0 && MicroHTTPD075.noticeHangup($0.fd) }
        }
    }

    /// True if a connection is gone, or its client sends nothing more.
    func isClosedByClient(_ number: UInt64) -> Bool {
        entries.withLock { entries in
            guard let connection = entries.open.first(where: { $0.number == number }) else { return true }
            var byte: UInt8 = 0
            let count = recv(connection.socket, &byte, 1, cmhd_peek_flags)
            return count == 0 || (count < 0 && errno != EAGAIN)
        }
    }

    var statistics: Statistics {
        entries.withLock { entries in
            var statistics = Statistics(
                connectionsOpen: entries.open.count, connectionsOpened: entries.opened,
                requestsBegun: entries.requestsBegun, requestsEnded: entries.requestsEnded,
                deadlinesMissed: entries.overdue)
            for connection in entries.open {
                let counts = connection.requestCounts
                statistics.requestsBegun += counts.begun
                statistics.requestsEnded += counts.ended
            }
            return statistics
        }
    }
}

/// The server's counts since its start.
package struct Statistics: Sendable, Equatable {
    package var connectionsOpen: Int
    package var connectionsOpened: UInt64
    /// Requests with a complete request line.
    package var requestsBegun: UInt64
    /// Requests whose state was released. Equal to `requestsBegun` when nothing is in flight.
    package var requestsEnded: UInt64
    /// Connections that were ended because they overstayed a deadline.
    package var deadlinesMissed: UInt64
}
