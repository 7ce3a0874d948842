import CMicroHTTPD
import Glibc

/// Every quirk of libmicrohttpd 0.9.75, Debian 12's version, on one page: the library's behaviour, our workaround, its
/// cost, its test, and the version that ends the quirk. "None up to 1.0.1" comes from reading the source of 1.0.1, not
/// from running it.
///
/// The engine reads or writes the library's own buffer only with a version whose parser is known, and hides the cookies
/// only where it can tell its own field from a client's. Every other workaround is harmless where it isn't needed, and
/// applies to every version. `HTTPServer.untestedLibrary` reports another version at the start.
///
/// Three quirks have their code elsewhere, because it is C or a whole file:
///
/// **A full round of events.** The loop (`MHD_epoll`) takes at most 128 events from `epoll_wait`. When it gets exactly
/// 128, it asks for more with the endless timeout of its first call before it handles them: 128 requests that arrive at
/// once wait until another event comes.
/// - Instead: `CMicroHTTPD/epoll.c` stands in for `epoll_wait` and gives at most 127 to a caller that asks for 128.
/// - Cost: a jump for each round; `epoll_pwait` is the same system call.
/// - Test: FullRoundTests.together
/// - Ends: none up to 1.0.1.
///
/// **Its own way to stop accepting** (`MHD_quiesce_daemon`) removes the socket from each worker's epoll set while the
/// worker may be doing the same, and the second to do so aborts the process (`MHD_PANIC` on ENOENT).
/// - Instead: `Listener` accepts and gives the library each connection (`MHD_add_connection`). The library has no
///   listening socket.
/// - Cost: a thread, and a hand-over between threads for each connection. Requests pay nothing.
/// - Test: LaterTests.drain, DrainTests.queue
/// - Ends: none up to 1.0.1.
///
/// **The library makes an answer's head in the memory that holds the request's.** If a head that is too large has
/// filled it, the library hangs up without an answer.
/// - Instead: `Connection.refuse` in Connection+Refusal.swift writes a refusal to the socket itself.
/// - Cost: 40 lines, which only refusals run.
/// - Test: HeadMemoryTests.oneAnswer, HeadMemoryTests.refusal
/// - Ends: none up to 1.0.1.
enum MicroHTTPD075 {
    static let loaded = String(cString: MHD_get_version())

    /// Returns whether a version is the tested one.
    static func isTested(_ version: String) -> Bool { version == "0.9.75" }

    /// Returns whether a version has the parser of 0.9: 1.0.0 has another one.
    static func hasOldParser(_ version: String) -> Bool { version.hasPrefix("0.9.") }

    // MARK: The head

    /// **The library parses a head in place, and leniently.** It puts a NUL at the end of the method, the target, each
    /// field name and each line, and hands out pointers into its buffer. It accepts a bare LF, folded lines, a NUL
    /// inside a line.
    /// - Instead: `HeadReader` and `TrailerReader` compare addresses, which show what the strings hide.
    /// - Cost: some subtractions for each field.
    /// - Test: HostileBytesTests.hostileBytes
    /// - Ends: 1.0.0, whose parser is stricter and moves what it parses. 0.9.77 unfolds lines in place.
    static let addressesTell = isTested(loaded)

    /// **The last field of the head may come again before the trailers**, if the first trailer arrives in parts.
    /// - Instead: `TrailerReader` skips what lies before the end of the head.
    /// - Cost: a comparison for each trailer.
    /// - Test: HeadMemoryTests.trailerInParts
    /// - Ends: 1.0.0, by its other parser.
    static func isFieldOfHead(_ address: UInt, headEnd: UInt) -> Bool { addressesTell && address < headEnd }

    /// **The library splits the query into a table** with 64 bytes of the connection's memory for each name. A query of
    /// a thousand ampersands fills the memory, and the library continues in a broken state: it queues a refusal, and
    /// parses on.
    /// - Instead: a NUL right after the question mark, before the library splits up to the first NUL. Nobody reads
    ///   its table.
    /// - Cost: a search for the question mark.
    /// - Test: LimitTests.separators
    /// - Ends: 1.0.0, which refuses such a query in its own words; the workaround doesn't touch its parser.
    static func hideQuery(_ target: UnsafeMutablePointer<CChar>) {
        guard meddlesWithQuery, let mark = strchr(target, Int32(UInt8(ascii: "?"))) else { return }
        mark[1] = 0
    }

    private static let meddlesWithQuery = hasOldParser(loaded)

    /// **The library splits the cookies into a table**, 64 bytes of the connection's memory for each: some 330 small
    /// ones fill it, and then the library sends the head of its refusal twice, or hangs up.
    /// - Instead: our own empty field, called Cookie, before the client's: the library splits the first one, and
    ///   `HeadReader` skips it.
    /// - Cost: 80 bytes of the connection's memory. If a head over the limits leaves less, the refusal's head still
    ///   comes twice.
    /// - Test: HeadMemoryTests.cookies, HeadMemoryTests.severalCookieFields
    /// - Ends: 1.0.0 refuses in order, but still splits.
    static func hideCookies(_ handle: OpaquePointer) {
        guard addressesTell else { return }
        let name = UnsafeRawPointer(ownCookie.utf8Start).assumingMemoryBound(to: CChar.self)
        // The end of the name is the empty text.
        _ = MHD_set_connection_value(handle, .HEADER_KIND, name, name + ownCookie.utf8CodeUnitCount)
    }

    /// The name of our own field; its address distinguishes it from a client's.
    private static let ownCookie: StaticString = "Cookie"

    static func isOwnCookie(_ name: UnsafePointer<CChar>) -> Bool {
        UInt(bitPattern: name) == UInt(bitPattern: ownCookie.utf8Start)
    }

    // MARK: The connection

    /// **The library misses a hang-up that comes together with data.** It takes a read that didn't fill its buffer for
    /// the last one and waits for the next edge of epoll. If the end of the stream had arrived with the data, there is
    /// no next edge, and a client that says it is finished and waits for the server to close would wait for the idle
    /// deadline.
    /// - Instead: the sweeper looks once a second. `SHUT_RD` makes an edge; the library then reads the end of the
    ///   stream. It doesn't affect an answer on its way.
    /// - Cost: one `poll` a second for all connections, one `recv` for each that is readable.
    /// - Test: HangupTests.halfClosed
    /// - Ends: none up to 1.0.1. Since 1.0.0 it waits for EPOLLRDHUP too, but that comes with the same edge.
    /// - Returns: whether the readable socket had nothing to read.
    static func noticeHangup(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        guard recv(socket, &byte, 1, cmhd_peek_flags) == 0 else { return false }
        _ = shutdown(socket, Int32(SHUT_RD))
        return true
    }

    /// **The library still reads from a connection that is suspended in the first final call of its handler.** After
    /// the resumption it reads before it asks for the answer, and takes a client that has closed its sending side for
    /// gone.
    /// - Instead: the handler returns without an answer, and suspends in the second final call, which follows at once.
    /// - Cost: one more call of the handler for each request that waits.
    /// - Test: HangupTests.halfClosedAndWaiting
    /// - Ends: none up to 1.0.1.
    static let maySuspendAtOnce = false

    // MARK: The daemon

    /// **The library shuts a socket down before it closes it**, which would also end a taken-over connection. With
    /// MHD_USE_TURBO it doesn't, though the name doesn't suggest that. The flag's other effect: the library reads from
    /// a new connection at once, and adds it to the epoll set only if nothing has arrived yet. It always does so with
    /// one that was suspended.
    /// - Instead: MHD_USE_TURBO.
    /// - Cost: none. The hostile bytes get the same answers with it and without.
    /// - Test: TakeOverTests.outlives
    /// - Ends: none up to 1.0.1.
    static let flags: UInt32 = [
        MHD_USE_EPOLL_INTERNAL_THREAD, MHD_USE_NO_LISTEN_SOCKET, MHD_USE_ITC, MHD_ALLOW_SUSPEND_RESUME, MHD_USE_TURBO,
    ].reduce(0) { $0 | $1.rawValue }

    /// **The library divides the limit of connections among the threads, and counts a connection a little longer than
    /// it lives.** It closes one too many without telling us.
    /// - Instead: the listener keeps the limit. The library's own is so large that no thread reaches it.
    /// - Cost: none.
    /// - Test: LimitTests.connectionLimit
    /// - Ends: none up to 1.0.1.
    static func connectionLimit(_ connections: Int, threads: UInt32) -> UInt32 { threads * UInt32(connections + 64) }

    /// **The library's timeout measures only inactivity**, so a byte now and then keeps a request open for ever; and
    /// for each request the library reads the clock and takes a lock three times.
    /// - Instead: no timeout of the library's. The sweeper ends connections that overstay.
    /// - Cost: a thread that wakes once a second. Requests get cheaper.
    /// - Test: RunningDeadlineTests.unfinishedHead, RunningDeadlineTests.unfinishedBody
    /// - Ends: none up to 1.0.1.
    static let inactivitySeconds: UInt32 = 0

    /// **The process crashes if the library refuses a request by itself while its daemon stops.** The library's
    /// `MHD_queue_response` then says yes without queuing the refusal, and the library reads it anyway.
    /// - Instead: before the engine stops the daemon, it shuts every connection down and waits for their ends. The
    ///   library reads no request from a connection that is shut down.
    /// - Cost: a second at the stop, at most.
    /// - Test: LaterTests.refusedWhileStopping
    /// - Ends: 1.0.1.
    static func shutDownBeforeStop(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }
}
