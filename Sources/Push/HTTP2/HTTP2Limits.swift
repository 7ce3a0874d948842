/// The limits of one HTTP/2 client. Times are nanoseconds of the monotonic clock.
package struct HTTP2Limits: Sendable {
    /// The most requests that wait for a stream; the client refuses the next one.
    package var waitingRequests = 4_096
    /// The longest that a request may wait for a stream.
    package var waiting = Int64.seconds(10)
    /// The longest that an answer may take, from when the request was put on a stream.
    package var answer = Int64.seconds(20)
    /// The kept bytes of an answer's body. Less than a stream's window of 65,535 bytes, so that only the connection's
    /// window needs refilling.
    package var answerBytes = 16_384
    /// The most streams at once on one connection, if the server allows as many.
    package var streams = 1_000
    /// The last stream id of a client (RFC 9113 section 5.1.1); a new connection starts over.
    var lastStreamID = Int(Int32.max)
    /// The most connections to one host at once.
    package var connections = 4
    /// The time for which all connections must be full before another one opens.
    package var fullness = Int64.milliseconds(250)
    /// The time for TCP, TLS and the server's first SETTINGS together.
    package var connecting = Int64.seconds(10)
    /// The longest that a shutdown waits for attempts to connect.
    var attemptsAtEnd = Int64.seconds(1)
    /// The time between PINGs on an idle connection.
    package var idlePing = Int64.seconds(60)
    /// A request unanswered for this long makes the client check the connection with a PING.
    package var doubt = Int64.seconds(5)
    /// A connection whose PING stays unanswered for this long is dead.
    package var pingAnswer = Int64.seconds(10)
    /// Use only one stream until the server has accepted a request: a fresh APNs connection allows one stream and more
    /// only after the first valid token (Apple, "Sending notification requests to APNs").
    package var startsWithOneStream = false

    package init() {}
}

/// The wait before the next attempt to connect, by the number of attempts that failed in a row: at once, then half a second,
/// doubled up to 30 s, and up to a quarter more at random, so that many servers don't reconnect together.
enum ConnectBackoff {
    static func nanoseconds(failures: Int, random: UInt64) -> Int64 {
        guard failures > 1 else { return 0 }
        let step = min(Int64.milliseconds(500) << Int64(min(failures - 2, 6)), .seconds(30))
        return step + Int64(random % UInt64(step / 4))
    }
}
