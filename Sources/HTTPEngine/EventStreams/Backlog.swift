import CMicroHTTPD
import Glibc

/// The rest that a stream has to send: bytes that the kernel didn't take, and the end after `finish`. Only streams that
/// lag or finish have one. On the loop's thread.
final class Backlog {
    /// The most buffers that one call gives to the kernel.
    private static let together = 32

    private var chunks: [StreamBytes] = []
    /// The first chunk that isn't fully sent, and the number of its bytes that are.
    private var first = 0
    private var offset = 0
    /// Bytes in all.
    private(set) var count = 0
    /// The time at which the kernel last took something, on the loop's clock.
    var progressAt: UInt64
    /// The deadline for closing the stream; 0 before `finish`.
    var end: UInt64 = 0
    /// Index among the set's lagging streams.
    var place = 0

    init(now: UInt64) { progressAt = now }

    func append(_ bytes: StreamBytes, from start: Int) {
        if chunks.isEmpty { offset = start }
        chunks.append(bytes)
        count += bytes.count - start
    }

    /// Sends as much as the kernel takes in one call.
    /// - Returns: how many bytes, or -1 with `errno`.
    func send(to descriptor: Int32) -> Int {
        let used = min(chunks.count - first, Self.together)
        let sent = withUnsafeTemporaryAllocation(of: iovec.self, capacity: used) { pieces in
            for index in 0..<used {
                let chunk = chunks[first + index]
                let start = index == 0 ? offset : 0
                pieces.initializeElement(
                    at: index, to: iovec(iov_base: chunk.base + start, iov_len: chunk.count - start))
            }
            var message = msghdr()
            message.msg_iov = pieces.baseAddress
            message.msg_iovlen = used
            return sendmsg(descriptor, &message, cmhd_send_flags)
        }
        if sent > 0 { drop(sent) }
        return sent
    }

    private func drop(_ sent: Int) {
        count -= sent
        var rest = sent + offset
        while first < chunks.count, rest >= chunks[first].count {
            rest -= chunks[first].count
            first += 1
        }
        offset = rest
        // Removes sent chunks, but doesn't move the rest at each call.
        if first == chunks.count || first >= 2 * Self.together {
            chunks.removeSubrange(0..<first)
            first = 0
        }
    }
}
