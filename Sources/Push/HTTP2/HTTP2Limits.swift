/// How one HTTP/2 client behaves. Times are nanoseconds of the monotonic clock.
package struct HTTP2Limits: Sendable {
    /// Requests that wait for a stream; the next one is turned away.
    package var waitingRequests = 4_096
    /// How long a request may wait for a stream.
    package var waiting = Int64.seconds(10)
    /// How long an answer may take, from when the request was put on a stream.
    package var answer = Int64.seconds(20)
    /// What is kept of an answer's body. Less than a stream's window of 65,535 bytes, so that only the connection's
    /// window ever has to be refilled.
    package var answerBytes = 16_384
    /// Streams at once on one connection, if the server allows as many.
    package var streams = 1_000
    /// Where a client's stream ids end (RFC 9113 section 5.1.1); a new connection begins again.
    var lastStreamID = Int(Int32.max)
    /// Connections to one host at once.
    package var connections = 4
    /// How long all connections are full before another one is opened.
    package var fullness = Int64.milliseconds(250)
    /// TCP, TLS and the server's first SETTINGS together.
    package var connecting = Int64.seconds(10)
    /// An idle connection is pinged this often.
    package var idlePing = Int64.seconds(60)
    /// A request unanswered for so long makes us ask with a PING whether the connection still lives.
    package var doubt = Int64.seconds(5)
    /// A connection whose PING stays unanswered for so long is dead.
    package var pingAnswer = Int64.seconds(10)
    /// One stream only, until the server has accepted a request: a fresh APNs connection allows one stream and more
    /// only after the first valid token (Apple, "Sending notification requests to APNs").
    package var startsWithOneStream = false

    package init() {}
}

/// How long to wait before the next attempt to connect, by the number of attempts that failed in a row: at once, then
/// half a second, doubled up to 30 s, and up to a quarter more by chance, so that many servers don't come back
/// together.
enum ConnectBackoff {
    static func nanoseconds(failures: Int, random: UInt64) -> Int64 {
        guard failures > 1 else { return 0 }
        let step = min(Int64.milliseconds(500) << Int64(min(failures - 2, 6)), .seconds(30))
        return step + Int64(random % UInt64(step / 4))
    }
}
