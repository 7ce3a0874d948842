import CMicroHTTPD
import Glibc

/// Every quirk of libmicrohttpd 0.9.75, which Debian 12 has, on one page: what the library does, what is done about
/// it, what that costs, the test that shows it, and the version that ends it. "None up to 1.0.1" is what the source
/// of 1.0.1 says, which was read and not run.
///
/// What reads or writes the library's own buffer is done only on a version whose parser is known. Everything else
/// here is harmless where it isn't needed, and is done on every version. `HTTPServer.untestedLibrary` tells of
/// another version at the start.
///
/// Three quirks have their code elsewhere, because it is in C or a whole file:
///
/// **A full round of events.** The loop (`MHD_epoll`) takes at most 128 events from `epoll_wait`. When it gets just
/// 128, it asks for more with the timeout of its first call, which is endless, before it looks at what it has: 128
/// requests that arrive at once wait until someone else says something.
/// - Instead: `CMicroHTTPD/epoll.c` stands in for `epoll_wait` and gives at most 127 to a caller that wants 128.
/// - Cost: a jump for each round; `epoll_pwait` is the same system call.
/// - Test: FullRoundTests.together
/// - Ends: none up to 1.0.1.
///
/// **Its own way to stop accepting** (`MHD_quiesce_daemon`) removes the socket from each worker's epoll set while the
/// worker may be doing the same, and whoever comes second aborts the process (`MHD_PANIC` on ENOENT).
/// - Instead: `Listener` accepts and gives the library each connection (`MHD_add_connection`). The library has no
///   listening socket.
/// - Cost: a thread, and a hand-over between threads for each connection. Requests pay nothing.
/// - Test: LaterTests.drain, DrainTests.queue
/// - Ends: none up to 1.0.1.
///
/// **An answer's head is made in the memory that holds the request's.** Where a head that is too large has filled it,
/// the library hangs up without an answer.
/// - Instead: `Connection.refuse` in Connection+Refusal.swift writes a refusal to the socket itself.
/// - Cost: 40 lines. Only refusals pass them.
/// - Test: HeadMemoryTests.oneAnswer, HeadMemoryTests.refusal
/// - Ends: none up to 1.0.1.
enum MicroHTTPD075 {
    static let loaded = String(cString: MHD_get_version())

    /// Whether a version is the one that all this was tested with.
    static func isTested(_ version: String) -> Bool { version == "0.9.75" }

    /// Whether a version has the parser of 0.9: 1.0.0 has another one.
    static func hasOldParser(_ version: String) -> Bool { version.hasPrefix("0.9.") }

    // MARK: The head

    /// **A head is parsed where it was received, and leniently.** The library puts a NUL at the end of the method,
    /// the target, each field name and each line, and hands out pointers into its buffer. It accepts a bare LF,
    /// folded lines, a NUL inside a line.
    /// - Instead: `HeadReader` and `TrailerReader` compare addresses, which tell what the strings hide.
    /// - Cost: some subtractions for each field.
    /// - Test: HostileBytesTests.hostileBytes
    /// - Ends: 1.0.0, whose parser is stricter and moves what it parses. 0.9.77 unfolds lines in place.
    static let addressesTell = isTested(loaded)

    /// **The last field of the head may come again before the trailers**, where the first trailer arrives in parts.
    /// - Instead: `TrailerReader` skips what lies before the end of the head.
    /// - Cost: a comparison for each trailer.
    /// - Test: HeadMemoryTests.trailerInParts
    /// - Ends: 1.0.0, by its other parser.
    static func isFieldOfHead(_ address: UInt, headEnd: UInt) -> Bool { addressesTell && address < headEnd }

    /// **The query is split into a table**, which takes 64 bytes of the connection's memory for each name. A query of
    /// a thousand ampersands fills it, and the library goes on with a broken state: it queues a refusal, and parses
    /// on.
    /// - Instead: a NUL right after the question mark, before the library splits up to the first NUL. Nobody reads
    ///   its table.
    /// - Cost: a search for the question mark.
    /// - Test: LimitTests.separators
    /// - Ends: 1.0.0, which refuses; its parser isn't meddled with.
    static func hideQuery(_ target: UnsafeMutablePointer<CChar>) {
        guard meddlesWithQuery, let mark = strchr(target, Int32(UInt8(ascii: "?"))) else { return }
        mark[1] = 0
    }

    private static let meddlesWithQuery = hasOldParser(loaded)

    /// **The cookies are split into a table**, 64 bytes of the connection's memory for each: some 330 small ones fill
    /// it, and then the library sends the head of its refusal twice, or hangs up.
    /// - Instead: an empty field of ours, called Cookie, before the client's: the library splits the first one.
    ///   `HeadReader` skips it.
    /// - Cost: 80 bytes of the connection's memory. Where a head that is over the limits leaves less, the refusal's
    ///   head comes twice still.
    /// - Test: HeadMemoryTests.cookies, HeadMemoryTests.severalCookieFields
    /// - Ends: 1.0.0 refuses in order, but still splits.
    static func hideCookies(_ handle: OpaquePointer) {
        guard addressesTell else { return }
        let name = UnsafeRawPointer(ownCookie.utf8Start).assumingMemoryBound(to: CChar.self)
        // The end of the name is the empty text.
        _ = MHD_set_connection_value(handle, .HEADER_KIND, name, name + ownCookie.utf8CodeUnitCount)
    }

    /// The name of the field of ours, told from a client's by its address.
    private static let ownCookie: StaticString = "Cookie"

    static func isOwnCookie(_ name: UnsafePointer<CChar>) -> Bool {
        UInt(bitPattern: name) == UInt(bitPattern: ownCookie.utf8Start)
    }

    // MARK: The connection

    /// **A hang-up that comes together with data isn't noticed.** The library takes a read that didn't fill its
    /// buffer for the last one and waits for the next edge of epoll. If the end of the stream had arrived with the
    /// data, there is no next edge, and a client that says it is finished and waits for the server to close would
    /// wait for the idle deadline.
    /// - Instead: the sweeper looks once a second. `SHUT_RD` makes an edge; the library then reads the end of the
    ///   stream. It takes nothing from an answer that is on its way.
    /// - Cost: one `poll` a second for all connections, one `recv` for each that is readable.
    /// - Test: HangupTests.halfClosed
    /// - Ends: none up to 1.0.1. Since 1.0.0 it waits for EPOLLRDHUP too, but that is told with the same edge.
    /// - Returns: whether the socket, which is readable, had nothing to read.
    static func noticeHangup(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        guard recv(socket, &byte, 1, cmhd_peek_flags) == 0 else { return false }
        _ = shutdown(socket, Int32(SHUT_RD))
        return true
    }

    /// **A connection that is suspended in the first final call of its handler is still one to be read from.**
    /// Resumed, it is read from before the answer is asked for, and a client that has said that it will send nothing
    /// more is taken for gone.
    /// - Instead: the handler comes back without an answer; in the second final call, which follows at once, it
    ///   suspends.
    /// - Cost: one call of the handler more for each request that waits.
    /// - Test: HangupTests.halfClosedAndWaiting
    /// - Ends: none up to 1.0.1.
    static let maySuspendAtOnce = false

    // MARK: The daemon

    /// **A socket is shut down before it is closed**, which would end a connection that was handed over as well. Not
    /// with MHD_USE_TURBO, which has nothing to do with it by its name. The rest of what that does: a new connection
    /// is read from at once and enters the epoll set only if nothing has arrived yet, as it already is with one that
    /// was suspended.
    /// - Instead: MHD_USE_TURBO.
    /// - Cost: none. The hostile bytes get the same answers with it and without.
    /// - Test: TakeOverTests.outlives
    /// - Ends: none up to 1.0.1.
    static let flags: UInt32 = [
        MHD_USE_EPOLL_INTERNAL_THREAD, MHD_USE_NO_LISTEN_SOCKET, MHD_USE_ITC, MHD_ALLOW_SUSPEND_RESUME, MHD_USE_TURBO,
    ].reduce(0) { $0 | $1.rawValue }

    /// **The limit of connections is divided among the threads, and a connection counts a little longer than it
    /// lives.** One too many is closed without telling us.
    /// - Instead: the acceptor keeps the limit. The library's own is so large that no thread reaches it.
    /// - Cost: none.
    /// - Test: LimitTests.connectionLimit
    /// - Ends: none up to 1.0.1.
    static func connectionLimit(_ connections: Int, threads: UInt32) -> UInt32 { threads * UInt32(connections + 64) }

    /// **A timeout of the library's measures inactivity only**, so that a byte now and then keeps a request for ever;
    /// and for each request the library looks at the clock and takes a lock three times.
    /// - Instead: none of its timeouts. The sweeper ends whoever overstays.
    /// - Cost: a thread that wakes once a second. Requests get cheaper.
    /// - Test: RunningDeadlineTests.unfinishedHead, RunningDeadlineTests.unfinishedBody
    /// - Ends: none up to 1.0.1.
    static let inactivitySeconds: UInt32 = 0

    /// **A request that the library refuses by itself while its daemon stops takes the process along.** It isn't
    /// given the refusal that it queues (`MHD_queue_response` says yes and does nothing), and reads it all the same.
    /// - Instead: before the daemon is stopped, every connection is shut down, and their ends are waited for. The
    ///   library reads no request any more of one that was shut down.
    /// - Cost: a second at the stop, at most.
    /// - Test: LaterTests.refusedWhileStopping
    /// - Ends: 1.0.1.
    static func shutDownBeforeStop(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }
}
