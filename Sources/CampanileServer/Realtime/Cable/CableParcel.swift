/// The batches that a subscriber was given and that are not sent yet.
///
/// Sendable: the mail is touched under the lock of `CableTurns`, the rest on the cable's thread only.
final class CableParcel: @unchecked Sendable {
    /// The batches that the hub left, and that the cable's thread has not taken yet.
    struct Mail {
        private(set) var news: [StreamNews] = []
        /// Why nothing follows.
        private(set) var end: StreamEnd?

        var isEmpty: Bool { news.isEmpty && end == nil }

        /// - Returns: by how much the waiting bytes have grown.
        mutating func put(_ further: StreamNews) -> Int {
            guard further.kind.isAbsolute, let last = news.last else {
                news.append(further)
                return further.bytes
            }
            // A number that was not sent yet is not sent any more: there is a newer one.
            news = [further]
            return further.bytes - last.bytes
        }

        mutating func finish(_ reason: StreamEnd) { end = reason }

        /// Keeps nothing. What is not sent has left a gap, so nothing may follow it.
        /// - Returns: by how much the waiting bytes have shrunk.
        mutating func giveUp() -> Int {
            let bytes = news.reduce(0) { $0 + $1.bytes }
            news = []
            end = .overloaded
            return bytes
        }

        /// The news, which are the taker's from now on.
        mutating func take() -> [StreamNews] {
            defer { news = [] }
            return news
        }
    }

    var mail = Mail()
    /// Whether it waits for a turn.
    var isQueued = false
    /// Whether it waits for its socket to take more.
    var isStalled = false
    /// Why nothing follows what is in hand.
    private(set) var end: StreamEnd?
    private var hand = Line<StreamNews>()
    /// Of the first in hand, the message that is sent next.
    private var next = 0

    var isEmpty: Bool { hand.isEmpty && end == nil }

    /// The message to be sent now.
    var first: (news: StreamNews, message: Int)? { hand.first.map { ($0, next) } }

    /// - Returns: the bytes of news that are not sent any more, because there are newer ones.
    func add(_ news: [StreamNews], _ end: StreamEnd?) -> Int {
        var outdated = 0
        for further in news {
            if further.kind.isAbsolute { outdated += drop() }
            hand.append(further)
        }
        self.end = end
        return outdated
    }

    /// The first message was sent.
    /// - Returns: the bytes of the news that were finished by that.
    func advance() -> Int {
        guard let news = hand.first else { return 0 }
        next += 1
        guard next >= news.messages.count else { return 0 }
        next = 0
        return hand.popFirst()?.bytes ?? 0
    }

    /// Keeps nothing.
    /// - Returns: its bytes.
    func drop() -> Int {
        var bytes = 0
        while let news = hand.popFirst() { bytes += news.bytes }
        next = 0
        return bytes
    }
}
